"""The server of the live page: three addresses that can be read, nothing that can be changed.

No part of a request is ever used as a path: a run is asked for by an id that is looked up among the runs that are
watched. Only GET and HEAD are answered. The `Host` header must name this computer as it was told to be called, so that
a web page from elsewhere whose name was made to point here (DNS rebinding) gets nothing; answers allow no other origin
to read them.
"""

import gzip
import ipaddress
import socket
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

from abps.errors import RunError
from abps.study.live import LiveStudy
from abps.study.page import security_policy

__all__ = ["LiveServer", "is_loopback", "make_server"]

READABLE = ("GET", "HEAD")
PATIENCE = 10.0
"""Seconds after which a connection that says nothing is closed."""

COMPRESSED = 4096
"""Bytes from which on an answer is compressed."""

HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class LiveServer(ThreadingHTTPServer):
    """Serves one live study until it is closed."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, study: LiveStudy, host: str, port: int) -> None:
        self.study, self.host = study, host
        self.loopback = is_loopback(host)
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), Handler)

    @property
    def address(self) -> str:
        """Where a browser finds the page."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{name}:{self.server_address[1]}/"

    def knows_itself_as(self, name: str) -> bool:
        """Whether a request to `name` may be meant for this server: a name that it has, or a number of its own kind."""
        own = {"localhost", self.host.lower()}
        if not self.loopback:
            own |= {socket.gethostname().lower(), socket.getfqdn().lower()}
        if name in own:
            return True
        try:
            number = ipaddress.ip_address(name)
        except ValueError:
            return False  # Any other name may have been made to point here.
        return number.is_loopback or not self.loopback

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that went away is no news."""


def make_server(study: LiveStudy, host: str = "127.0.0.1", port: int = 0) -> LiveServer:
    """Listen at an address.

    Raises:
        RunError: it cannot be had.
    """
    try:
        return LiveServer(study, host, port)
    except (OSError, OverflowError, UnicodeError) as error:
        reason = str(getattr(error, "strerror", None) or error).rstrip(".")
        raise RunError(
            f"cannot listen at {host}, port {port}: {reason}; choose another with --port (0 takes a free one) or --host"
        ) from error


def is_loopback(host: str) -> bool:
    """Whether only this computer can reach an address."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server_version, sys_version = "abps", ""
    timeout = PATIENCE

    def parse_request(self) -> bool:
        """Refuse whatever is not a question to this server before anything else looks at it."""
        if not super().parse_request():
            return False
        if self.command not in READABLE:
            self._refuse(405, "only GET and HEAD are answered here", {"Allow": ", ".join(READABLE)})
            return False
        if not self._meant_for_us():
            self._refuse(403, "the Host header names another server")
            return False
        return True

    def do_GET(self) -> None:
        """Answer with the page, its data, or the details of one run."""
        address = urlsplit(self.path)
        routes: dict[str, Callable[[str], None]] = {"/": self._page, "/data.json": self._data, "/run.json": self._run}
        route = routes.get(address.path) if not address.netloc else None
        if route is None:
            self._refuse(404, "there is nothing here")
            return
        try:
            route(address.query)
        except OSError:
            raise
        except Exception:  # Whatever strange files a run holds: the page says so and asks again.
            self._refuse(500, "the runs could not be read")

    do_HEAD = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the terminal belongs to the person who watches."""

    @property
    def _live(self) -> LiveServer:
        return cast("LiveServer", self.server)  # The base class knows it as any server.

    def _meant_for_us(self) -> bool:
        hosts = self.headers.get_all("Host") or []
        try:
            name = urlsplit(f"//{hosts[0]}").hostname if len(hosts) == 1 else None
        except ValueError:
            return False
        return name is not None and self._live.knows_itself_as(name.lower())

    def _page(self, query: str) -> None:
        self._send(200, "text/html; charset=utf-8", self._live.study.page().encode("utf-8", "replace"),
                   {"Content-Security-Policy": security_policy(live=True) + "; frame-ancestors 'none'"})  # fmt: skip

    def _data(self, query: str) -> None:
        answer = self._live.study.data()
        if self.headers.get("If-None-Match") == answer.tag:
            self._send(304, "application/json", b"", {"ETag": answer.tag})
            return
        self._send(200, "application/json", answer.body, {"ETag": answer.tag})

    def _run(self, query: str) -> None:
        try:
            names = parse_qs(query, max_num_fields=4).get("run", [])
        except ValueError:  # Too many fields: nobody's question.
            names = []
        body = self._live.study.details(names[0]) if len(names) == 1 else None
        if body is None:
            self._refuse(404, "there is no such run")
            return
        self._send(200, "application/json", body, {})

    def _refuse(self, status: int, reason: str, headers: dict[str, str] | None = None) -> None:
        self.close_connection = True
        self._send(status, "text/plain; charset=utf-8", f"{reason}\n".encode(), headers or {})

    def _send(self, status: int, kind: str, body: bytes, headers: dict[str, str]) -> None:
        if len(body) >= COMPRESSED and "gzip" in self.headers.get("Accept-Encoding", ""):
            body, headers = gzip.compress(body, 3, mtime=0), {**headers, "Content-Encoding": "gzip"}
        self.send_response(status)
        for name, value in {**HEADERS, "Content-Type": kind, "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
