"""`kill -9` at random instants: the resumed run is the uninterrupted one, byte for byte, for every search in the
registry."""

import json
import random

import killing
import pytest

from abps.registry import KINDS, find
from abps.tasks.limits import Limits

KILLS = 5


def dice(seed):
    return random.Random(seed)  # noqa: S311 (the instants of kills are no secret)


def reference_of(zygote, folder, search, **settings):
    path = killing.make_run(folder / "reference", search, **settings)
    zygote.start(path)
    assert zygote.wait() == 0
    return path


def seconds_of(path):
    return json.loads((path / "metrics.jsonl").read_text().splitlines()[-1])["seconds"]


def kill_often(zygote, folder, search, kills, **settings):
    """Kill until it has happened so often, in as many runs as that takes; every one must equal the reference."""
    reference = reference_of(zygote, folder, search, **settings)
    killed, attempt, length = 0, 0, 0.5 * seconds_of(reference)
    while killed < kills:
        path = killing.make_run(folder / f"killed-{attempt}", search, **settings)
        count, wrong = killing.kill_until(zygote, reference, path, dice(attempt), kills, length)
        assert wrong == []
        killed, attempt = killed + count, attempt + 1


@pytest.mark.parametrize("search", killing.searches())
def test_killed_run_equals_the_uninterrupted_one(search, zygote, tmp_path):
    kill_often(zygote, tmp_path, search, KILLS, env="FlakyEnv", checkpoint_stages=search in ("gibo", "ddpgn"))


@pytest.mark.parametrize("search", ["abs@cpu", "snes"])
@pytest.mark.parametrize("kind", [kind for kind in KINDS["policy"] if kind != "linear-tanh"])
def test_killed_run_with_every_class_of_policies_equals_the_uninterrupted_one(search, kind, zygote, tmp_path):
    """What a class draws and the normaliser of its inputs must survive; the linear one is in the test above."""
    small = {"fourier": {"features": 3}, "radial": {"features": 3}, "mlp": {"hidden": (3,)}}.get(kind, {})
    config = killing.tiny_config(search, policy=find("policy", kind)(**small))
    kill_often(zygote, tmp_path, search, 2, env="FlakyEnv", config=config, episodes=16)


def test_killed_run_with_limits_equals_the_uninterrupted_one(zygote, tmp_path):
    """The keeper of the limits remembers a reference and visited states: both must survive."""
    limits = Limits(action_change=(0.05,), action_rate=(0.3,), weights=0.5)
    settings = {"env": "FlakyEnv", "checkpoint_stages": True, "limits": limits, "episodes": 16}
    reference = reference_of(zygote, tmp_path, "abs@cpu", **settings)
    path = killing.make_run(tmp_path / "killed", "abs@cpu", **settings)
    count, wrong = killing.kill_until(zygote, reference, path, dice(7), KILLS, 0.5 * seconds_of(reference))
    assert wrong == []
    assert count > 0
    shares = [json.loads(line)["step_limited"] for line in (path / "metrics.jsonl").read_text().splitlines()]
    assert any(share < 1.0 for share in shares), "the limits never bound: no test"


@pytest.mark.parametrize("search", ["abs@cpu", "ars"])
def test_killed_run_with_constraints_equals_the_uninterrupted_one(search, zygote, tmp_path):
    """Processes, their critics, caution and recent episodes must survive; some episodes crash, some break a limit."""
    constraint = ("place<=1.5", "effort<=0.5(reduce=sum, probability=0.8)")
    settings = {"env": "CostlyEnv", "checkpoint_stages": search == "ars", "constraint": constraint, "episodes": 14}
    reference = reference_of(zygote, tmp_path, search, **settings)
    path = killing.make_run(tmp_path / "killed", search, **settings)
    count, wrong = killing.kill_until(zygote, reference, path, dice(5), 3, 0.5 * seconds_of(reference))
    assert wrong == []
    assert count > 0
    journal = killing.journal_of(path)
    assert any(line["violated"] for line in journal), "no limit was ever broken: no test"
    assert any(line["failed"] for line in journal), "nothing crashed: no test"
    worked = [line for line in journal if not line["failed"]]
    assert all(set(line["costs"]) == {"place", "effort"} for line in worked)


@pytest.mark.slow
def test_episodes_that_overtook_others_survive_a_kill(zygote, tmp_path):
    settings = {"env": "SlowEnv", "episodes": 12, "evaluate_every": 0}
    reference = reference_of(zygote, tmp_path, "ars", **settings)
    path = killing.make_run(tmp_path / "killed", "ars", workers=2, **settings)
    _, wrong = killing.kill_until(zygote, reference, path, dice(1), 3, 6.0)
    # One worker against two: only the setting itself and what is only in it may differ.
    assert set(wrong) <= {"config.yaml"}


def test_comparison_notices_a_difference(zygote, tmp_path):
    """Negative control: another seed, a flipped byte and a lost line are seen."""
    reference = killing.comparable(reference_of(zygote, tmp_path, "ars"))
    assert killing.differences(reference, reference) == []
    lost = {**reference, "journal.jsonl": reference["journal.jsonl"][:-1]}
    assert killing.differences(reference, lost) == ["journal.jsonl"]
    name = next(name for name in reference if name.endswith(".safetensors"))
    flipped = {**reference, name: reference[name][:-1] + bytes([reference[name][-1] ^ 1])}
    assert killing.differences(reference, flipped) == [name]
    changed = [{**line, "return": 0.0} for line in reference["journal.jsonl"]]
    assert killing.differences(reference, {**reference, "journal.jsonl": changed}) == ["journal.jsonl"]


def test_kill_between_a_new_checkpoint_and_the_removal_of_the_old(zygote, tmp_path):
    """An instant that random kills hit once in two hundred."""
    from abps.run.checkpoint import save_checkpoint

    path = reference_of(zygote, tmp_path, "ars")
    before = killing.comparable(path)
    newest = max((path / "checkpoint").glob("*.json"))
    contents = {file: file.read_bytes() for file in (path / "checkpoint").iterdir()}
    save_checkpoint(path / "checkpoint", 1, {"older": 1})
    for file, content in contents.items():
        file.write_bytes(content)
    (path / "checkpoint" / "00000001.json").write_bytes(newest.read_bytes())
    (path / "DONE").unlink()
    zygote.start(path)
    assert zygote.wait() == 0
    assert killing.differences(before, killing.comparable(path)) == []
