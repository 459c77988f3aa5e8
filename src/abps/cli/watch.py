"""`abps watch`: running work in the terminal, and TensorBoard files of it."""

import argparse
import json
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

__all__ = ["HELP", "configure", "execute"]

HELP = """Look at runs while they are trained: how far each is, how well it does, and how long it will take.

Give run directories, or folders with runs in them; new runs in a folder appear by themselves. The run of a robot,
given alone, is shown to its operator: returns, failures, the next episode, what to do. Nothing in them is changed."""

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
            Console(width=width).print(watcher.picture(snapshots, None))
        else:
            _show(watcher, snapshots, arguments.every)
    except KeyboardInterrupt:
        pass
    finally:
        watcher.close()
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
    with Live(watcher.picture(snapshots, console.height), console=console, auto_refresh=False) as live:
        live.refresh()
        busy = any(item.state == "running" for item in snapshots)
        last = time.monotonic() if busy else float("-inf")
        while time.monotonic() - last < PATIENCE:
            time.sleep(every)
            if any(item.state == "running" for item in snapshots):
                last = time.monotonic()
            snapshots = watcher.look()
            live.update(watcher.picture(snapshots, console.height), refresh=True)


class _Watcher:
    """Finds runs, follows them, and hands new iterations to TensorBoard."""

    def __init__(self, paths: list[Path], tensorboard: Path | None) -> None:
        from abps.study.tensorboard import TensorBoardExport

        self._paths = paths
        self._followers: dict[Path, Any] = {}
        self._export = TensorBoardExport(tensorboard) if tensorboard is not None else None
        self._folder = tensorboard
        self._exported, self._least = 0, 1

    def look(self) -> list[Any]:
        from abps.study.progress import Follower
        from abps.study.records import find_runs

        found = find_runs(self._paths)
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

    def picture(self, snapshots: list[Any], height: int | None) -> Any:
        from abps.study.watch import overview

        note = ""
        if self._folder is not None:
            note = f"TensorBoard: {self._exported} outer iterations written to {self._folder}"
        return overview(snapshots, height, note)
