"""Record golden journals with the code of abps 0.1.0: the script that wrote tests/golden and benchmarks/golden.

    git worktree add /tmp/base db8d57b
    PYTHONPATH=/tmp/base/src OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/golden/record.py OUT

It speaks to the command line of that commit, whose options are gone today.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

SHORT = ["--window", "10", "--probes", "4"]
DROQ = ["--critics.width", "16", "--critics.members", "3", "--critics.steps-first", "20"]
DROQ += ["--critics.steps-probe", "20", "--critics.steps-centre", "40"]
LSTD = ["--critics.kind", "lstd", "--critics.features", "64"]
COLUMNS = ["query", "role", "iteration", "parameters_crc", "parameters_norm", "return", "steps"]


def cases() -> dict[str, list[str]]:
    """The command line of every journal, by its name."""
    found: dict[str, list[str]] = {}

    def add(name: str, task: str, search: str, preset: str, seed: int, episodes: int, *more: str) -> None:
        words = ["--search", search, "--preset", preset, "--seed", str(seed), "--episodes", str(episodes)]
        found[f"{name}-{seed}"] = [task, *words, *more]

    for seed in (0, 1):
        for task in ("pendulum", "hopper"):
            for preset in ("cpu", "paper"):
                for search in ("mpd", "gibo"):
                    add(f"{task}-{search}-{preset}", task, search, preset, seed, 32, *SHORT)
                add(f"{task}-ars-{preset}", task, "ars", preset, seed, 48)
            add(f"{task}-abs-paper", task, "abs", "paper", seed, 32, *SHORT, *DROQ)
            for way in ("softmax", "evidence", "best", "single", "mean"):
                more = ["--aggregation", way, "--states", "0" if way == "mean" else "64"]
                add(f"{task}-abs-paper-lstd-{way}", task, "abs", "paper", seed, 32, *SHORT, *LSTD, *more)
            add(f"{task}-ddpgn-paper-lstd", task, "ddpgn", "paper", seed, 32, *SHORT, *LSTD)
            for kind in ("relu", "quadratic"):
                more = ["--critics.feature-kind", kind]
                add(f"{task}-abs-paper-{kind}", task, "abs", "paper", seed, 32, *SHORT, *LSTD, *more)
        for search in ("mpd", "gibo"):  # Whole presets, nothing shortened.
            add(f"full-hopper-{search}-paper", "hopper", search, "paper", seed, 92)
            add(f"full-pendulum-{search}-cpu", "pendulum", search, "cpu", seed, 60)
    return found


def record(arguments: list[str]) -> str:
    """Run `abps train` with the old code and return the journal's text."""
    with tempfile.TemporaryDirectory() as runs:
        rest = ["--quiet", "--evaluate-every", "0", "--runs", runs]
        subprocess.run([sys.executable, "-m", "abps", "train", *arguments, *rest], check=True)
        path = next(Path(runs).glob("*/*/seed-*/journal.jsonl"))
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        versions = json.loads((path.parent / "versions.json").read_text())
    head = json.dumps({"arguments": arguments, "versions": versions, "columns": COLUMNS})[:-1]
    rows = ",\n".join(json.dumps([line[name] for name in COLUMNS], separators=(",", ":")) for line in lines)
    return f'{head}, "episodes": [\n{rows}\n]}}\n'


def main() -> None:
    """Write what is not there yet."""
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    for name, arguments in cases().items():
        if not (out / f"{name}.json").exists():
            (out / f"{name}.json").write_text(record(arguments))
            print(name, flush=True)


if __name__ == "__main__":
    main()
