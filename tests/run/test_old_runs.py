"""A run of abps 0.1.0 (golden/run-0.1.0, made at commit db8d57b): refused where it cannot go on, read everywhere else.

It was made by `abps train pendulum --search ars --episodes 12` and ends after two outer iterations.
"""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from abps.cli import main
from abps.errors import RunError
from abps.export import FORMATS, export_policy
from abps.policies import load_policy
from abps.policies.linear import ClippedLinear
from abps.rollouts.pool import make_pool
from abps.run.checkpoint import SchemaError, load_checkpoint
from abps.run.directory import OldFormatError, read_settings
from abps.run.evaluation import evaluate
from abps.run.hardware import open_hardware_run
from abps.study.records import load_runs
from abps.study.report import payload
from abps.tasks.gym import make_task

GOLDEN = Path(__file__).parent / "golden" / "run-0.1.0"
REFUSAL = (
    r"was made by another version: its settings have format 1, this version reads format 2\. Go on with it by "
    r"abps 0\.1\.0 \(commit db8d57ba69a3\); `abps report` and `abps export` read it here all the same$"
)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A copy that may be written to."""
    return shutil.copytree(GOLDEN, tmp_path / "pendulum" / "ars" / "seed-0")


def contents(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_its_settings_are_refused_with_the_version_that_reads_them(old: Path) -> None:
    with pytest.raises(OldFormatError, match=REFUSAL):
        read_settings(old)
    with pytest.raises(OldFormatError, match=REFUSAL), open_hardware_run(old):
        pass


def test_without_its_stamp_it_is_refused_all_the_same(old: Path) -> None:
    (old / "versions.json").unlink()
    with pytest.raises(OldFormatError, match="Go on with it by an older abps"):
        read_settings(old)


def test_damaged_settings_are_damage_and_no_other_version(old: Path) -> None:
    """Negative control: only a whole file is taken for another version's."""
    (old / "config.yaml").write_text("seed: 0\n")
    with pytest.raises(RunError, match="is damaged") as caught:
        read_settings(old)
    assert not isinstance(caught.value, OldFormatError)


def test_resuming_is_refused_in_one_sentence_and_touches_nothing(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(old)
    assert main(["resume", str(old), "--episodes", "18"]) == 1
    said = capsys.readouterr().err.strip()
    assert len(said.splitlines()) == 1
    assert re.search(REFUSAL, said)
    assert contents(old) == before


def test_its_checkpoints_are_refused_too(old: Path) -> None:
    with pytest.raises(SchemaError, match=r"schema 1, written by abps 0\.1\.0"):
        load_checkpoint(old / "checkpoint" / "00000012.json")


def test_the_report_reads_it(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run,) = load_runs([old.parents[2]])
    assert (run.task, run.search, run.seed, run.status, run.notes) == ("pendulum", "ars", 0, "done", ())
    assert run.column("episodes").tolist() == [6.0, 12.0]
    assert np.isfinite(run.column("eval_return")).all()
    (shown,) = payload([run])["runs"]
    assert shown["counted"]
    assert shown["y"]["max_return"] == pytest.approx(run.column("max_return").tolist(), rel=1e-4)
    page = old / "report.html"
    assert main(["report", str(old), "--out", str(page)]) == 0
    assert "db8d57ba69a3" in page.read_text()
    assert ", 1 run)" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["best", "current"])
def test_its_policies_load_evaluate_and_export(name: str, old: Path, tmp_path: Path) -> None:
    policy = load_policy(old / "policy" / f"{name}.npz")
    assert isinstance(policy.space.policy_class, ClippedLinear)  # Its file says `direct`, the name of that time.
    stored = np.load(old / "policy" / f"{name}.npz")
    assert str(stored["kind"]) == "direct"
    observation = np.array([0.1, -0.2, 0.3, 0.4])
    assert policy(observation) == pytest.approx(np.clip(stored["weights"] @ observation, -3.0, 3.0))
    task = make_task("pendulum")
    (result,) = evaluate(make_pool(task), [policy], 5, 0, 2)  # The fresh episodes of the second outer iteration.
    last = json.loads((old / "metrics.jsonl").read_text().splitlines()[-1])
    if name == "current":
        assert (result.mean, result.std) == (last["eval_return"], last["eval_return_std"])
    for target in FORMATS:
        done = export_policy(policy, target, tmp_path / target)
        assert done.error is not None
        assert done.error < 1e-6
