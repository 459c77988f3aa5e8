"""The server of the live page: it answers questions about runs, and nothing else can be had from it or done to it."""

import gzip
import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from abps.cli import main
from abps.errors import RunError
from abps.study.live import LiveStudy
from abps.study.server import LiveServer, is_loopback, make_server

HIDDEN = "only for the robot"


@pytest.fixture(scope="module")
def server(study: Path) -> Iterator[LiveServer]:
    (study.parent / "secret.txt").write_text(HIDDEN)
    (study / "hopper" / "abs" / "seed-0" / "secret.txt").write_text(HIDDEN)
    server = make_server(LiveStudy([study], 0.0))
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def ask(
    server: LiveServer, path: str, method: str = "GET", body: bytes | None = None, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=30)
    try:
        connection.putrequest(method, path, skip_host="Host" in headers, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


def test_page_data_and_details(server: LiveServer) -> None:
    status, headers, page = ask(server, "/")
    assert status == 200
    assert b"<!doctype html>" in page
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert "connect-src 'self'" in headers["Content-Security-Policy"]
    status, headers, body = ask(server, "/data.json")
    data = json.loads(body)
    assert (status, len(data["runs"])) == (200, 18)
    assert ask(server, "/data.json", If_None_Match=headers["ETag"])[0] == 304
    status, headers, small = ask(server, "/data.json", Accept_Encoding="gzip")
    assert headers["Content-Encoding"] == "gzip"
    assert json.loads(gzip.decompress(small)) == data
    status, _, body = ask(server, f"/run.json?run={data['runs'][3]['id']}")
    assert status == 200
    assert json.loads(body)["next"]


def test_head_sends_no_body(server: LiveServer) -> None:
    status, headers, body = ask(server, "/", "HEAD")
    assert (status, body) == (200, b"")
    assert int(headers["Content-Length"]) > 1000


PATHS = [
    "/secret.txt",
    "/../secret.txt",
    "/..%2fsecret.txt",
    "/%2e%2e/secret.txt",
    "//etc/passwd",
    "/hopper/abs/seed-0/secret.txt",
    "/data.json/../../secret.txt",
    "/data.json%00",
    "/run.json?run=../../secret.txt",
    "/run.json?run=/etc/passwd",
    "/run.json?run=hopper/abs/seed-0",
    "/run.json",
    "/run.json?run=a&run=b",
    "/run.json?" + "&".join(["run=a"] * 1000),
    "/run.json?run=" + "a" * 60_000,
    "/run.json?run=%00",
    "/index.html",
    "/.git/config",
    "/assets/report.js",
    "http://127.0.0.1/",
    "http://evil.example/data.json",
    "/config.yaml",
    "/\\..\\secret.txt",
    "*",
]


@pytest.mark.parametrize("path", PATHS)
def test_nothing_else_can_be_read(server: LiveServer, path: str) -> None:
    status, _, body = ask(server, path, Host="localhost")
    assert status == 404
    assert HIDDEN.encode() not in body
    assert len(body) < 100


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "MOVE", "get"])
def test_nothing_can_be_changed(server: LiveServer, study: Path, method: str) -> None:
    before = {path: path.stat().st_mtime_ns for path in study.rglob("*")}
    for path in ("/", "/data.json", "/run.json?run=x", "/../secret.txt"):
        status, headers, _ = ask(server, path, method, b"x" * 10)
        assert status == 405
        assert headers["Allow"] == "GET, HEAD"
    assert {path: path.stat().st_mtime_ns for path in study.rglob("*")} == before


def test_watching_changes_nothing(server: LiveServer, study: Path) -> None:
    before = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in study.rglob("*")}
    data = json.loads(ask(server, "/data.json")[2])
    ask(server, f"/run.json?run={data['runs'][0]['id']}")
    assert {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in study.rglob("*")} == before


NAMES = [
    "evil.example",
    "127.0.0.1.evil.example",
    "evil.example:8321",
    "192.168.0.7",
    "",
    "[::1",
    "a b",
    "localhost.evil",
]


@pytest.mark.parametrize("host", NAMES)
def test_other_names_are_refused(server: LiveServer, host: str) -> None:
    """A page from elsewhere whose name was made to point to 127.0.0.1 sends its own name."""
    status, _, body = ask(server, "/data.json", Host=host)
    assert status == 403
    assert b"hopper" not in body


def test_a_missing_or_doubled_host_is_refused(server: LiveServer) -> None:
    for lines in (
        b"GET /data.json HTTP/1.0\r\n\r\n",
        b"GET /data.json HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n",
    ):
        with socket.create_connection(("127.0.0.1", server.server_address[1]), timeout=30) as connection:
            connection.sendall(lines)
            assert b" 403 " in connection.recv(100)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8321", "127.0.0.1", "127.0.0.1:1", "[::1]:80", "127.3.2.1"])
def test_own_names_are_known(server: LiveServer, host: str) -> None:
    assert ask(server, "/data.json", Host=host)[0] == 200


def test_other_origins_may_not_read(server: LiveServer) -> None:
    _, headers, _ = ask(server, "/data.json", Origin="https://evil.example")
    assert "Access-Control-Allow-Origin" not in headers
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert headers["X-Content-Type-Options"] == "nosniff"


def test_noise_is_survived(server: LiveServer) -> None:
    for noise in (
        b"\x00\xff\xfe\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /" + b"a" * 70000,
        b"",
        b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 300,
    ):
        with socket.create_connection(("127.0.0.1", server.server_address[1]), timeout=30) as connection:
            connection.sendall(noise)
    assert ask(server, "/data.json")[0] == 200


def test_many_at_once(server: LiveServer) -> None:
    answers: list[int] = []
    threads = [threading.Thread(target=lambda: answers.append(ask(server, "/data.json")[0])) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [200] * 16


def test_runs_that_cannot_be_shown_are_an_answer_too(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watching = LiveStudy([study], 0.0)
    monkeypatch.setattr(watching, "data", lambda: 1 / 0)
    with make_server(watching) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        status, _, body = ask(server, "/data.json")
        assert (status, body) == (500, b"the runs could not be read\n")
        server.shutdown()


def test_addresses() -> None:
    assert [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "127.9.9.9")] == [True] * 4
    assert [is_loopback(host) for host in ("0.0.0.0", "::", "192.168.1.2", "robot.local")] == [False] * 4  # noqa: S104
    with pytest.raises(RunError, match=r"cannot listen at 203\.0\.113\.1, port 0: .*--port"):
        make_server(LiveStudy([]), "203.0.113.1")
    with make_server(LiveStudy([])) as first, pytest.raises(RunError, match="in use"):
        make_server(LiveStudy([]), port=first.server_address[1])
    with pytest.raises(RunError, match=r"port 99999: [^;]*[^.;]; choose"):
        make_server(LiveStudy([]), port=99999)


def test_an_open_address_answers_to_numbers_and_its_own_names() -> None:
    with make_server(LiveStudy([]), "0.0.0.0") as server:  # noqa: S104
        assert server.knows_itself_as("192.168.0.7")
        assert server.knows_itself_as(socket.gethostname().lower())
        assert not server.knows_itself_as("evil.example")


def test_the_command_ends_with_ctrl_c(study: Path) -> None:
    command = [sys.executable, "-m", "abps", "watch", str(study / "hopper" / "abs"), "--web", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("The live page is http://127.0.0.1:")
    port = int(line.split(":")[2].split("/")[0])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", "/data.json")
    assert connection.getresponse().status == 200
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (0, "")
    assert "The live page is closed." in out
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", port), timeout=5)


def test_an_open_address_and_a_missing_folder_are_told_of(
    study: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(server: LiveServer, poll_interval: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(LiveServer, "serve_forever", interrupted)
    assert main(["watch", str(study), "--web", "--port", "0", "--host", "0.0.0.0"]) == 0  # noqa: S104
    told = capsys.readouterr()
    assert told.err.startswith("warning: everybody who can reach 0.0.0.0 on the network can read these runs")
    assert told.out.endswith("The live page is closed.\n")
    assert main(["watch", str(study), "--web", "--port", "0"]) == 0
    assert capsys.readouterr().err == ""
    assert main(["watch", str(study), str(study / "later"), "--web", "--port", "0"]) == 0
    told = capsys.readouterr().err
    assert told == f"note: there is no {study / 'later'} yet; the page shows runs as they appear\n"


def test_wrong_words(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", str(study), "--web", "--once"]) == 1
    assert "--web goes with none of" in capsys.readouterr().err
    assert main(["watch", str(study), "--web", "--port", "70000"]) == 1
    assert "cannot listen at 127.0.0.1, port 70000" in capsys.readouterr().err


def test_a_thousand_runs(make_run: Callable[..., Path], tmp_path: Path) -> None:
    path = make_run(tmp_path / "one", "hopper", "ars", 0, episodes=48, status="unfinished")
    metrics = (path / "metrics.jsonl").read_bytes()
    for number in range(1000):
        folder = tmp_path / "many" / f"task-{number % 20}" / f"search-{number // 20}" / "seed-0"
        folder.mkdir(parents=True)
        (folder / "metrics.jsonl").write_bytes(metrics)
    with make_server(LiveStudy([tmp_path / "many"], 1000.0)) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        began, data = time.monotonic(), {"runs": []}
        while not data["runs"] and time.monotonic() - began < 60:
            data = json.loads(ask(server, "/data.json")[2])
        details = ask(server, f"/run.json?run={data['runs'][-1]['id']}")
        server.shutdown()
    assert len(data["runs"]) == 1000
    assert details[0] == 200
