"""The process of one cell: `python -m abps.study.worker PATH`, with the settings as one line of JSON on standard input.

Standard input stays open as long as the study lives. When it ends, so does this process: cleanly, as after SIGTERM.
The exit code says what became of the cell; a traceback (exit code 1) means that something happened that nobody foresaw.
"""

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

__all__ = ["BUSY", "DONE", "FAILED", "INTERRUPTED", "first_line", "main"]

DONE, FAILED, BUSY, INTERRUPTED = 0, 3, 75, 130


def main(argv: list[str]) -> int:
    """Carry out one cell; return the exit code."""
    line = first_line()
    if not line:
        return INTERRUPTED
    from abps.errors import AbpsError
    from abps.run.directory import settings_from_document
    from abps.study.cells import BusyError, run_cell

    try:
        run_cell(Path(argv[0]), settings_from_document(json.loads(line)))
    except KeyboardInterrupt:
        return INTERRUPTED
    except BusyError as error:
        print(error, file=sys.stderr)
        return BUSY
    except AbpsError as error:
        print(error, file=sys.stderr)
        return FAILED
    return DONE


def first_line() -> bytes:
    """What the study has to say; from now on this process ends with it, and on SIGTERM as on Ctrl-C."""
    # A study that was started in the background ignores SIGINT, and its children would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _interrupt)
    line = sys.stdin.buffer.readline()
    if line:
        threading.Thread(target=_end_with_the_study, daemon=True).start()
    return line


def _interrupt(number: int, frame: Any) -> None:
    raise KeyboardInterrupt


def _end_with_the_study() -> None:
    """Wait for the other end of standard input to close, which the operating system does when the study dies."""
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
