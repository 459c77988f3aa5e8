"""A worker process of a tuning study: `python -m abps.tuning.worker FOLDER`, with one line of JSON on standard input.

Standard input stays open as long as the study lives; when it ends, so does this process, as after SIGTERM.
"""

import json
import sys
from pathlib import Path

from abps.study.worker import DONE, FAILED, INTERRUPTED, first_line

__all__ = ["main"]


def main(argv: list[str]) -> int:
    """Carry out trials; return the exit code."""
    line = first_line()
    if not line:
        return INTERRUPTED
    from abps.errors import AbpsError
    from abps.tasks.gym import make_task
    from abps.tuning.definition import read_tuning
    from abps.tuning.work import work

    try:
        wanted, folder = json.loads(line), Path(argv[0])
        tuning = read_tuning(folder)
        work(folder, tuning, wanted["trials"], make_task(tuning.base.task), keep=wanted["keep"])
    except KeyboardInterrupt:
        return INTERRUPTED
    except AbpsError as error:
        print(error, file=sys.stderr)
        return FAILED
    return DONE


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
