"""The live study: what changes on disk is seen, what vanishes is gone, what is damaged is survived."""

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from abps.run.directory import claim
from abps.study import live
from abps.study.live import LiveStudy, Memo
from abps.study.records import find_runs, load_runs
from abps.study.report import payload

MakeRun = Callable[..., Path]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers wait for the look; there is no pause between two."""
    monkeypatch.setattr(live, "PATIENCE", 60.0)
    monkeypatch.setattr(live, "REST", 0.0)


def seen(study: LiveStudy) -> dict[str, Any]:
    return json.loads(study.data().body)


def test_it_shows_what_the_report_shows(study: Path) -> None:
    now, report = seen(LiveStudy([study / "hopper"], 0.0)), payload(load_runs([study / "hopper"]))
    assert now["live"]
    assert [run["id"] for run in now["runs"]] == [run["id"] for run in report["runs"]]
    assert [run["y"]["centre_return"] for run in now["runs"]] == [run["y"]["centre_return"] for run in report["runs"]]
    value = [group["bands"]["episodes"]["centre_return"]["iqm"][0] for group in now["groups"]]
    assert value == [group["bands"]["episodes"]["centre_return"]["iqm"][0] for group in report["groups"]]
    assert now["details"] == {}, "those of one run are asked for"
    assert now["title"] == "abs, mpd, ars on hopper"


def test_details_are_those_of_the_report(study: Path) -> None:
    watching, report = LiveStudy([study / "hopper" / "abs"], 0.0), payload(load_runs([study / "hopper" / "abs"]))
    name = report["runs"][0]["id"]
    body = watching.details(name)
    assert body is not None
    assert json.loads(body)["findings"] == report["details"][name]["findings"]
    assert json.loads(body)["headline"] == report["details"][name]["headline"]
    assert watching.details("nothing") is None


def test_a_run_that_grows_changes_its_tag_and_version(make_run: MakeRun, tmp_path: Path) -> None:
    path = make_run(tmp_path, "hopper", "abs", 0, status="unfinished")
    watching = LiveStudy([tmp_path], 0.0)
    first, (run,) = watching.data(), seen(watching)["runs"]
    assert watching.data().tag == first.tag, "nothing is new"
    last = json.loads((path / "metrics.jsonl").read_text().splitlines()[-1])
    with (path / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({**last, "episodes": 299, "seconds": last["seconds"] + 9, "eval_return": 4242.0})[:30])
        file.flush()
        assert watching.data().tag == first.tag, "half a line is no news"
        file.seek(0, 2)
        file.write(
            json.dumps({**last, "episodes": 299, "seconds": last["seconds"] + 9, "eval_return": 4242.0})[30:] + "\n"
        )
    (now,) = seen(watching)["runs"]
    assert now["last"]["centre_return"] == 4242
    assert now["version"] > run["version"]
    assert watching.data().tag != first.tag


def test_states_and_rates(make_run: MakeRun, tmp_path: Path) -> None:
    path = make_run(tmp_path, "hopper", "abs", 0, status="unfinished")
    watching = LiveStudy([tmp_path], 0.0)
    (run,) = seen(watching)["runs"]
    assert (run["status"], run["rate"]) == ("stopped", None)
    with claim(path):
        (run,) = seen(watching)["runs"]
    assert run["status"] == "running"
    assert run["rate"] > 0
    assert run["left"] > 0
    (path / "DONE").write_text("episodes: budget reached")
    assert seen(watching)["runs"][0]["status"] == "done"


def test_runs_appear_and_vanish(make_run: MakeRun, tmp_path: Path) -> None:
    watching = LiveStudy([tmp_path / "later"], 0.0)
    assert seen(watching)["runs"] == []
    assert "No runs yet" in watching.page()
    paths = [make_run(tmp_path / "later", "hopper", "abs", seed) for seed in range(2)]
    ids = [run["id"] for run in seen(watching)["runs"]]
    assert len(ids) == 2
    shutil.rmtree(paths[0])
    assert [run["id"] for run in seen(watching)["runs"]] == ids[1:]
    assert watching.details(ids[0]) is None
    shutil.rmtree(tmp_path / "later")
    assert seen(watching)["runs"] == []


@pytest.mark.parametrize("file", ["config.yaml", "metrics.jsonl", "journal.jsonl", "versions.json", "DONE"])
@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe\x00", b"{", b'{"episodes": NaN, "seconds": 1e999}\n[1]\n', b"a: &x [*x]"]
)
def test_damaged_files_are_survived(make_run: MakeRun, tmp_path: Path, file: str, content: bytes) -> None:
    path = make_run(tmp_path, "hopper", "abs", 0, episodes=60)
    (path / file).write_bytes(content)
    watching = LiveStudy([tmp_path], 0.0)
    (run,) = seen(watching)["runs"]
    assert watching.details(run["id"]) is not None
    assert watching.data().tag == watching.data().tag


def test_an_error_in_a_look_is_told_and_passes(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watching = LiveStudy([study / "hopper" / "abs"], 0.0)
    with monkeypatch.context() as broken:
        broken.setattr(live, "payload", lambda *args, **kwargs: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            watching.data()
    assert len(seen(watching)["runs"]) == 3


def test_an_answer_does_not_wait_for_a_long_look(
    make_run: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run(tmp_path, "hopper", "abs", 0)
    watching = LiveStudy([tmp_path], 0.0)
    monkeypatch.setattr(live, "PATIENCE", 0.05)
    monkeypatch.setattr(live, "find_runs", lambda paths: (time.sleep(0.5), find_runs(paths))[1])
    started = time.monotonic()
    assert seen(watching)["headlines"] == [live.NOTHING_YET]
    assert time.monotonic() - started < 0.45
    monkeypatch.setattr(live, "PATIENCE", 60.0)
    assert len(seen(watching)["runs"]) == 1


def test_only_what_changed_is_computed_again(study: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shutil.copytree(study / "hopper", tmp_path / "study" / "hopper")
    watching, made, recall = LiveStudy([tmp_path / "study"], 0.0), [], Memo.recall

    def counted(memo: Memo, key: Any, make: Callable[[], Any]) -> Any:
        return recall(memo, key, lambda: (made.append(key[0]), make())[1])

    monkeypatch.setattr(Memo, "recall", counted)
    watching.data()
    everything = len(made)
    made.clear()
    file = tmp_path / "study" / "hopper" / "abs" / "seed-1" / "metrics.jsonl"
    last = json.loads(file.read_text().splitlines()[-1])
    with file.open("a") as lines:
        lines.write(json.dumps({**last, "seconds": last["seconds"] + 1}) + "\n")
    watching.data()
    # Its own curve and its group's; the bands over minutes of its task have another end now.
    assert 0 < len(made) < everything / 2
    assert made.count("run") == 1
