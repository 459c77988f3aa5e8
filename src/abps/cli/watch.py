"""`abps watch`: running work in the terminal or in a browser, and TensorBoard files of it."""

import argparse
import json
import sys
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

__all__ = ["HELP", "configure", "execute"]

HELP = """Look at runs while they are trained: how far each is, how well it does, and how long it will take.

Give run directories, or folders with runs in them; new runs in a folder appear by themselves. A robot's run, given
alone, is shown to its operator: returns, failures, the next episode, what to do. Nothing in the runs is changed.

  abps watch runs                  a table in the terminal
  abps watch runs --web            live curves in a browser, for this computer only"""

PORT = 8321

BATCH = 10
"""Outer iterations that are exported together while runs go on."""

PATIENCE = 15.0
"""Seconds without a running run after which watching ends; a study needs a few between two of its cells."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("runs", nargs="*", type=Path, default=[Path("runs")], help="runs or folders (default: runs)")
    parser.add_argument("--once", action="store_true", help="print the table once and stop")
    parser.add_argument("--every", type=float, default=2.0, metavar="SECONDS", help="between two updates (default: 2)")
    parser.add_argument("--json", action="store_true", help="print one JSON object per run and stop")
    web = parser.add_argument_group("in a browser")
    web.add_argument("--web", action="store_true", help="serve a live page until Ctrl-C")
    web.add_argument("--port", type=int, default=PORT, help=f"its port; 0: any that is free (default: {PORT})")
    web.add_argument(
        "--host", default="127.0.0.1", metavar="ADDRESS",
        help="address to listen at (default: 127.0.0.1, which only this computer can reach)",
    )  # fmt: skip
    parser.add_argument(
        "--tensorboard", type=Path, metavar="DIR",
        help="also write TensorBoard files there; calling it again adds what is new (view: tensorboard --logdir DIR)",
    )  # fmt: skip


def execute(arguments: argparse.Namespace) -> int:
    """Show the runs until Ctrl-C, or until none of them is running."""
    from rich.console import Console

    from abps.errors import ConfigError

    if arguments.every <= 0:
        raise ConfigError(f"--every must be positive, got {arguments.every:g}")
    if arguments.web:
        return _serve(arguments)
    if _shows_one_robot(arguments):
        return 0
    watcher = _Watcher(arguments.runs, arguments.tensorboard)
    try:
        snapshots = watcher.look()
        if arguments.json:
            for item in snapshots:
                print(json.dumps({**asdict(item), "path": str(item.path), "seconds_left": item.left}))
        elif arguments.once or not Console().is_terminal:
            width = None if Console().is_terminal else 160  # In a file there is no width to keep to.
            Console(width=width).print(watcher.picture(snapshots, None if width else Console(height=10_000)))
        else:
            _show(watcher, snapshots, arguments.every)
    except KeyboardInterrupt:
        pass
    finally:
        watcher.close()
    return 0


def _serve(arguments: argparse.Namespace) -> int:
    """Serve the live page until Ctrl-C."""
    from abps.errors import ConfigError
    from abps.study.live import LiveStudy
    from abps.study.server import is_loopback, make_server

    if arguments.once or arguments.json or arguments.tensorboard:
        raise ConfigError("--web goes with none of --once, --json and --tensorboard")
    server = make_server(LiveStudy(arguments.runs, arguments.every), arguments.host, arguments.port)
    if not is_loopback(arguments.host):
        print(
            f"warning: everybody who can reach {arguments.host} on the network can read these runs (and change none)",
            file=sys.stderr,
        )
    if missing := [str(path) for path in arguments.runs if not path.exists()]:
        print(f"note: there is no {', '.join(missing)} yet; the page shows runs as they appear", file=sys.stderr)
    print(f"The live page is {server.address} (Ctrl-C ends it)", flush=True)
    try:
        server.serve_forever(poll_interval=0.2)
    except KeyboardInterrupt:
        print("\nThe live page is closed.")
    finally:
        server.server_close()
    return 0


def _shows_one_robot(arguments: argparse.Namespace) -> bool:
    """Show the operator's view when the one thing to watch is a robot's run; False: it is not."""
    from abps.run.operator import is_robot

    if len(arguments.runs) != 1 or arguments.tensorboard is not None or not is_robot(arguments.runs[0]):
        return False
    from abps.cli.robot_view import watch_robot

    with suppress(KeyboardInterrupt):
        watch_robot(arguments.runs[0], arguments.every, once=arguments.once, as_json=arguments.json)
    return True


def _show(watcher: "_Watcher", snapshots: list[Any], every: float) -> None:
    """Draw until nothing runs any more."""
    from rich.console import Console
    from rich.live import Live

    console = Console()
    with Live(watcher.picture(snapshots, console), console=console, auto_refresh=False) as live:
        live.refresh()
        last = time.monotonic() if _busy(snapshots) else float("-inf")
        while time.monotonic() - last < PATIENCE:
            time.sleep(every)
            if _busy(snapshots):
                last = time.monotonic()
            snapshots = watcher.look(again=True)
            live.update(watcher.picture(snapshots, console), refresh=True)


def _busy(snapshots: list[Any]) -> bool:
    """Whether something may still happen: a run is trained, or a robot's run waits for its next episode."""
    return any(item.state in ("running", "waiting") for item in snapshots)


class _Watcher:
    """Finds runs, follows them, and hands new iterations to TensorBoard."""

    def __init__(self, paths: list[Path], tensorboard: Path | None) -> None:
        from abps.study.tensorboard import TensorBoardExport

        self._paths = paths
        self._followers: dict[Path, Any] = {}
        self._export = TensorBoardExport(tensorboard) if tensorboard is not None else None
        self._folder = tensorboard
        self._exported, self._least = 0, 1

    def look(self, *, again: bool = False) -> list[Any]:
        """The runs as they are now; what is gone since the first look is left out."""
        from abps.errors import RunError
        from abps.study.progress import Follower
        from abps.study.records import find_runs

        try:
            found = find_runs(self._paths)
        except RunError:
            if not again:
                raise
            found = []
        for path in found:
            self._followers.setdefault(path, Follower(path))
            if self._export is not None:
                self._exported += self._export.update(path, self._least)
        self._least = BATCH
        return [self._followers[path].read() for path in found]

    def close(self) -> None:
        """Export what was held back."""
        if self._export is not None:
            for path in self._followers:
                self._export.update(path)

    def picture(self, snapshots: list[Any], console: Any) -> Any:
        """The table as it fits a console; None: whole."""
        from abps.study.watch import overview

        note = ""
        if self._folder is not None:
            note = f"TensorBoard: {self._exported} outer iterations written to {self._folder}"
        if console is None:
            return overview(snapshots, None, note)
        return overview(snapshots, console.height, note, console.width)
