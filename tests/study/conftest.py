"""Run directories that look like real ones, without running anything: the ground the study tests stand on."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

VERSIONS = {"python": "3.11.9", "numpy": "2.4.6", "jax": "0.10.2", "gymnasium": "1.4.0", "mujoco": "3.4.0",
            "abps": "0.1.0", "commit": "0123abc", "cpu": "synthetic"}  # fmt: skip
TASKS = {"pendulum": (1000.0, 4, 1), "swimmer": (340.0, 8, 2), "hopper": (2500.0, 11, 3), "cheetah": (3500.0, 17, 6),
         "walker": (2200.0, 17, 6), "ant": (1800.0, 27, 8)}  # fmt: skip
SPEED = {"abs": 1.0, "mpd": 0.6, "ars": 0.45, "gibo": 0.5}


def write_run(
    root: Path,
    task: str,
    search: str,
    seed: int,
    *,
    episodes: int = 300,
    status: str = "done",
    speed: float | None = None,
    settings: dict[str, Any] | None = None,
    versions: dict[str, Any] | None = None,
    folder: str | None = None,
) -> Path:
    """Write one synthetic run; the curve saturates at the task's best return, at a pace set by the search."""
    rng = np.random.default_rng([seed, *task.encode(), *search.encode()])
    best, observations, actions = TASKS.get(task, (100.0, 3, 1))
    path = root / task / (folder or search) / f"seed-{seed}"
    (path / "policy").mkdir(parents=True)
    config = {
        "format": 2,
        "seed": seed,
        "task": {"name": task, "id": f"{task.title()}-v4", "gamma": 0.99, "horizon": 1000, "reward_scale": 100.0},
        "search": {"name": search, "settings": {
            "kind": "local", "policy": {"kind": "linear-tanh"}, "gp": {"refit": "warm", "lengthscale_low": 0.0025},
            "step": {"kind": "scaled-direction", "factor": 0.0025 * len(task)},
            "prior": {"kind": "advantage", "aggregation": {"kind": "softmax"}, "reset_worst": True}, **(settings or {}),
        }},
        "budget": {"episodes": episodes, "steps": 0},
        "run": {"workers": 1},
    }  # fmt: skip
    (path / "config.yaml").write_text(yaml.safe_dump(config))
    (path / "versions.json").write_text(json.dumps({**VERSIONS, **(versions or {})}))
    speed = SPEED.get(search, 0.5) if speed is None else speed
    rows, counted, journal = _metrics(rng, search, best, episodes, speed)
    (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (path / "journal.jsonl").write_text("".join(json.dumps(row) + "\n" for row in journal))
    np.savez(
        path / "policy" / "best.npz",
        kind=np.array("linear-tanh"), task=np.array(task), weights=rng.normal(size=(actions, observations)),
        observation_mean=rng.normal(size=observations), observation_std=np.ones(observations),
        observation_count=np.array(1000), observation_m2=1000 * rng.uniform(0.5, 2, observations) ** 2,
        action_low=-np.ones(actions), action_high=np.linspace(1.0, 3.0, actions),
    )  # fmt: skip
    if status in ("done", "failed"):
        (path / status.upper()).write_text(
            "episodes: budget reached" if status == "done" else "10 episodes in a row failed"
        )
    assert counted <= episodes
    return path


def _metrics(rng: np.random.Generator, search: str, best: float, episodes: int, speed: float) -> tuple[list, int, list]:
    per_iteration, rows, journal = {"ars": 16}.get(search, 19), [], []
    pace, centre, top, steps, seconds, score = speed * rng.lognormal(0, 0.25) / 60, 0.0, -1e9, 0, 0.0, 0.3
    discounted_top = -1e9
    for iteration in range(episodes // per_iteration):
        count = (iteration + 1) * per_iteration
        centre = best * (1 - np.exp(-pace * count)) * (1 + 0.08 * rng.normal()) + 0.02 * best
        length = int(150 + 700 * min(1.0, max(0.0, centre / best)))
        steps += length * per_iteration
        top, discounted = max(top, centre * 1.05), centre * 0.09
        discounted_top = max(discounted_top, discounted * 1.05)
        rollout, fit = 0.02 * length * per_iteration / 19, 2.0 + rng.random()
        seconds += rollout + fit
        row: dict[str, Any] = {
            "iteration": iteration, "episodes": count, "steps": steps, "eval_return": centre,
            "eval_return_std": 0.1 * best, "eval_discounted": discounted, "max_return": top,
            "max_discounted": discounted_top, "seconds": seconds, "seconds_rollout": rollout,
            "centre_return": None if search == "ars" else centre * 0.97,
            "centre_discounted": None if search == "ars" else discounted * 0.97, "seconds_evaluation": 0.4,
        }  # fmt: skip
        if search != "ars":
            row |= {
                "lengthscale_low": 0.003, "lengthscale_median": 0.01 * rng.lognormal(0, 0.3), "lengthscale_high": 0.05,
                "signal": 0.2, "noise": 0.02, "log_likelihood": 40 + 10 * rng.random(), "step_actions": 0.02,
                "probability_ascent": 0.5 + 0.5 * rng.random(), "step_length": 0.05 * rng.lognormal(0, 0.4),
                "mu_norm": 3 * rng.lognormal(0, 0.4), "seconds_fit": fit, "seconds_acquisition": 0.3 * fit,
            }  # fmt: skip
        if search == "abs":
            score = float(np.clip(score + 0.12 * rng.normal() + 0.02, -0.6, 0.9))
            scores = (score - np.abs(rng.normal(0, 0.3, 5))).tolist()
            weights = np.exp(scores) / np.exp(scores).sum()
            row |= {"r2_validation": scores, "r2_test": score - abs(rng.normal(0, 0.7)), "weights": weights.tolist(),
                    "seconds_critics": 2 * fit, "mean_gradient_cosine": rng.uniform(0, 1)}  # fmt: skip
        rows.append(row)
        journal.append({"episode": count, "return": centre, "steps": length, "failed": None})
    return rows, (episodes // per_iteration) * per_iteration, journal


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Debian's Chromium, driven by playwright; tests skip where it is not installed."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("no Chromium installed (apt-get install chromium)")
    sync_api = pytest.importorskip("playwright.sync_api")
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_api.sync_playwright() as playwright:
        instance = playwright.chromium.launch(executable_path=found, args=flags)
        yield instance
        instance.close()


@pytest.fixture
def make_run() -> Callable[..., Path]:
    return write_run


@pytest.fixture(scope="session")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tasks × three searches × three seeds, all finished."""
    root = tmp_path_factory.mktemp("study")
    for task in ("hopper", "pendulum"):
        for search in ("ars", "abs", "mpd"):
            for seed in range(3):
                write_run(root, task, search, seed)
    return root
