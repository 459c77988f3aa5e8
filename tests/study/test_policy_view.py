"""A policy as a picture, and films that stand in the page."""

import base64
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from abps.study.policy_view import MAX_WEIGHTS, film, policy_pictures
from abps.study.records import load_runs
from abps.study.report import FILM_BYTES_OF_MANY, payload

MakeRun = Callable[..., Path]


def test_rows_are_actions_and_columns_observations(make_run: MakeRun, tmp_path: Path) -> None:
    path = make_run(tmp_path, "hopper", "abs", 0)
    (picture,) = policy_pictures(path)
    with np.load(path / "policy" / "best.npz") as stored:
        weights = stored["weights"]
    assert (picture["which"], len(picture["rows"]), len(picture["columns"])) == ("best", 3, 11)
    assert np.array(picture["weights"]) == pytest.approx(weights, rel=1e-4)
    assert picture["columns"][10] == "o10"
    assert not picture["scaled"]
    np.savez(
        path / "policy" / "current.npz",
        weights=weights,
        bias=np.array([1.0, 2.0, 3.0]),
        observation_std=2 * np.ones(11),
    )
    current, best = policy_pictures(path)
    assert (current["which"], best["which"]) == ("current", "best")
    assert [row[-1] for row in current["weights"]] == [1, 2, 3]
    assert current["columns"][-1] == "bias"
    assert current["scaled"]


def test_the_real_file_of_a_policy_is_read(tmp_path: Path) -> None:
    import abps

    task = abps.make_task("pendulum")
    policy = abps.make_search("abs", task.spec).ask().policy
    (tmp_path / "policy").mkdir()
    policy.save(tmp_path / "policy" / "current.npz")
    (picture,) = policy_pictures(tmp_path)
    assert (picture["kind"], picture["rows"], picture["columns"][-1]) == ("linear-tanh", ["a0"], "bias")


@pytest.mark.parametrize("content", [b"", b"PK no zip", "large", "nan", "objects", "flat"])
def test_a_strange_policy_is_left_out(tmp_path: Path, content: bytes | str) -> None:
    (tmp_path / "policy").mkdir()
    file = tmp_path / "policy" / "best.npz"
    arrays = {
        "large": np.zeros((2, MAX_WEIGHTS)),
        "nan": np.full((2, 2), np.nan),
        "objects": np.array([[{}]], dtype=object),
        "flat": np.ones(4),
    }
    if isinstance(content, bytes):
        file.write_bytes(content)
    else:
        np.savez(file, weights=arrays[content])
    assert policy_pictures(tmp_path) == []


def test_a_film_is_put_into_the_page(make_run: MakeRun, tmp_path: Path) -> None:
    paths = [make_run(tmp_path, "hopper", "abs", seed) for seed in range(3)]
    assert film(paths[0], 100) is None
    for path in paths:
        (path / "video.mp4").write_bytes(b"x" * (FILM_BYTES_OF_MANY // 2))
    found = film(paths[0], FILM_BYTES_OF_MANY)
    assert found is not None
    assert base64.b64decode(found["data"]) == b"x" * (FILM_BYTES_OF_MANY // 2)
    assert found["kind"] == "video/mp4"
    assert film(paths[0], 10) is None, "larger than what may be added"
    films = [details["film"] for details in payload(load_runs([tmp_path]))["details"].values()]
    assert [item is not None for item in films] == [True, False, False], "together they would make the page too large"
