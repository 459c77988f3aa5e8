"""The benchmark's results table: it goes on, names what is missing, and leaves the rest of the file alone."""

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "learning" / "table.py"


def table(tmp_path: Path, *more: str) -> subprocess.CompletedProcess[str]:
    words = ["--tasks", "abps.tasks.lqr:s2_a1_seed0", "--searches", "ars", "--episodes", "16", "--quiet"]
    places = ["--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "RESULTS.md")]
    return subprocess.run(
        [sys.executable, str(SCRIPT), *words, *places, *more],
        capture_output=True, text=True, timeout=120, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def test_the_table_names_what_is_missing_and_replaces_only_itself(tmp_path: Path) -> None:
    out = tmp_path / "RESULTS.md"
    out.write_text("# Results\n\nkept before\n")
    first = table(tmp_path, "--seeds", "0")
    assert first.returncode == 0, first.stderr
    out.write_text(out.read_text() + "kept after\n")
    later = table(tmp_path, "--seeds", "0-1", "--only-write")
    assert later.returncode == 1
    text = out.read_text()
    assert "1 of 2 cells are missing" in text
    assert "ars/seed-1 (0)" in text
    assert "| abps.tasks.lqr:s2_a1_seed0 | ars | 1 | 16 |" in text
    assert text.count("table.py begins") == 1
    assert "kept before" in text
    assert "kept after" in text
