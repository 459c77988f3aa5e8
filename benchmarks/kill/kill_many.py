"""Hundreds of `kill -9` on runs of every search, each compared byte for byte with the run that was never interrupted.

    python benchmarks/kill/kill_many.py [--kills 500] [--seed 0] > benchmarks/kill/kill_many.txt

Runs differ in search, checkpoint interval, failing episodes, workers (episodes overtake each other and wait in the
spool) and critics (`droq` starts jax in every session). The exit code is 0 only when no run differs.
"""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "e2e"))

import killing

from abps.critics.droq_config import Droq

VARIANTS = {
    "plain": {},
    "stage checkpoints": {"checkpoint_stages": True},
    "failing episodes, checkpoint every 3": {"env": "FlakyEnv", "checkpoint_every": 3},
    "no checkpoint": {"checkpoint_every": 1000},
}
DROQ = Droq(members=2, replay=50, width=8, batch=8, steps_first=8, steps_probe=8, steps_centre=8)


def cases() -> list[tuple[str, str, dict]]:
    """Every search under every variant, and a few that cost more."""
    names = killing.searches()
    rows = [(name, label, dict(settings)) for name in names for label, settings in VARIANTS.items()]
    rows += [(name, "2 workers", {"env": "SlowEnv", "workers": 2, "episodes": 16}) for name in ("ars", "mpd", "abs")]
    config = killing.tiny_config("abs", critics=DROQ)
    rows.append(("abs", "droq critics", {"config": config, "episodes": 12}))
    return [row for row in rows if row[0] in names]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rng, zygote = random.Random(arguments.seed), killing.Zygote()  # noqa: S311 (instants of kills are no secret)
    total = runs = wrong_runs = round_number = 0
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        references = {}
        while total < arguments.kills:
            for number, (search, label, settings) in enumerate(cases()):
                reference, length = references.get(number) or (None, 0.0)
                if reference is None:
                    reference = killing.make_run(Path(folder) / f"reference-{number}", search, **settings)
                    begin = time.monotonic()
                    zygote.start(reference)
                    if zygote.wait() != 0:
                        print(f"{search:6} {label}: the uninterrupted run failed")
                        return 1
                    length = time.monotonic() - begin
                    references[number] = (reference, length)
                path = killing.make_run(Path(folder) / f"killed-{round_number}-{number}", search, **settings)
                killed, wrong = killing.kill_until(zygote, reference, path, rng, 8, 0.3 * length)
                total, runs, wrong_runs = total + killed, runs + 1, wrong_runs + bool(wrong)
                print(
                    f"{search:6} {label:38} {killed:2} kills  "
                    f"{'DIFFERS: ' + '; '.join(wrong) if wrong else 'identical'}",
                    flush=True,
                )
            round_number += 1
    zygote.close()
    print(
        f"{total} kills of {runs} runs: {wrong_runs} differ from the uninterrupted run "
        f"({time.monotonic() - started:.0f} s)"
    )
    return 1 if wrong_runs else 0


if __name__ == "__main__":
    sys.exit(main())
