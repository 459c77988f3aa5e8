"""TensorBoard and W&B for real: what they write is read back."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from abps.errors import ConfigError
from abps.run.loggers import LOGGERS, open_loggers, scalars

Make = Callable[..., Any]


def test_scalars_are_the_numbers_and_lists_are_spread_out() -> None:
    record = {"a": 1, "b": None, "c": [0.5, None, 2], "d": "text", "e": True}
    assert scalars(record) == {"a": 1.0, "c/0": 0.5, "c/2": 2.0}


def test_tensorboard_files_hold_the_metrics(tmp_path: Path, make_settings: Make, run_new: Make, records: Make) -> None:
    pytest.importorskip("tensorboardX")
    path = tmp_path / "run"
    run_new(path, make_settings(episodes=12), open_loggers(["tensorboard"], path, {}))
    logged = _read_events(next((path / "tensorboard").glob("events*")))
    for record in records(path / "metrics.jsonl"):
        for name in ("eval_return", "step_length", "direction_return_mean"):
            assert logged[name, record["episodes"]] == pytest.approx(record[name], rel=1e-6)
    assert ("eval_return", 7) not in logged


@pytest.mark.filterwarnings("ignore")  # wandb's own imports warn.
def test_wandb_offline_holds_the_metrics(
    tmp_path: Path, make_settings: Make, run_new: Make, records: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    wandb = pytest.importorskip("wandb")
    for name in ("WANDB_DATA_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "elsewhere"))
    monkeypatch.setenv("WANDB_SILENT", "true")
    path = tmp_path / "run"
    path.mkdir()
    run_new(path, make_settings(episodes=12), open_loggers(["wandb"], path, {"seed": 0}))
    wandb.teardown()  # As at the end of every process: a run's finish() can return before the last bytes are written.
    file, deadline = next(path.glob("wandb/offline-run-*/*.wandb")), time.monotonic() + 30
    while b"direction_return_mean" not in (stored := file.read_bytes()):  # A process of wandb's own writes it.
        assert time.monotonic() < deadline, f"nothing but {len(stored)} bytes came"
        time.sleep(0.2)
    last = records(path / "metrics.jsonl")[-1]
    assert repr(last["direction_return_mean"])[:10].encode() in stored


@pytest.mark.parametrize(("name", "package"), [("tensorboard", "tensorboardX"), ("wandb", "wandb")])
def test_a_missing_package_is_named(name: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, package, None)
    with pytest.raises(ConfigError, match=rf"needs {package}: pip install 'abps\[{name}\]'"):
        open_loggers([name], tmp_path, {})


class Breaking:
    """A writer that works once."""

    def __init__(self, path: Path, config: dict[str, Any]) -> None:
        self.written = 0

    def write(self, numbers: dict[str, float], episodes: int) -> None:
        self.written += 1
        if self.written > 1:
            raise OSError("the server is gone")

    def close(self) -> None:
        raise AssertionError("a writer that failed is left alone")


def test_a_logger_that_fails_costs_a_note_not_the_run(
    tmp_path: Path, make_settings: Make, run_new: Make, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setitem(LOGGERS, "breaking", Breaking)  # type: ignore[arg-type]
    result = run_new(tmp_path / "run", make_settings(), open_loggers(["breaking"], tmp_path, {}))
    assert result.episodes == 24
    assert capsys.readouterr().err.count("logging to breaking failed (OSError: the server is gone)") == 1


def test_a_logger_that_cannot_begin_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, config: dict[str, Any]) -> None:
        raise PermissionError("no licence")

    monkeypatch.setitem(LOGGERS, "refusing", refuse)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="cannot log to refusing: PermissionError: no licence; leave out"):
        open_loggers(["refusing"], tmp_path, {})


def _read_events(path: Path) -> dict[tuple[str, int], float]:
    """Read TensorBoard's record file: length (8), its checksum (4), a protocol buffer, its checksum (4)."""
    from tensorboardX.proto import event_pb2

    data, found = path.read_bytes(), {}
    while data:
        size = int.from_bytes(data[:8], "little")
        event = cast("Any", event_pb2).Event.FromString(data[12 : 12 + size])
        for value in event.summary.value:
            found[value.tag, event.step] = value.simple_value
        data = data[12 + size + 4 :]
    return found
