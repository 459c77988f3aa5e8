"""Kill a run with SIGKILL at random instants, resume it, and compare it byte for byte with the run that was never
interrupted.

Used by tests/e2e/test_kill.py (a few kills) and benchmarks/kill/kill_many.py (hundreds). Sessions are forked from a
process that has imported everything already (`python killing.py --serve`), so that a session costs milliseconds, not
an interpreter's start.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

HERE = Path(__file__).resolve().parent


class TinyEnv(gymnasium.Env):
    """A noisy damped mass that is paid for staying near the middle: eight steps, microseconds each."""

    def __init__(self) -> None:
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (3,), np.float64)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._state, self._time = self.np_random.normal(size=3), 0
        return self._state.copy(), {}

    def step(self, action) -> tuple[Any, ...]:
        push = np.array([0.3, 0.1, 0.0]) * float(action[0])
        self._state = 0.9 * np.roll(self._state, 1) + push + 0.01 * self.np_random.normal(size=3)
        self._time += 1
        fell = bool(np.abs(self._state[0]) > 2.5)
        return self._state.copy(), 1.0 - float(self._state @ self._state), fell, self._time >= 8, {}


class FlakyEnv(TinyEnv):
    """Fails by its seed: some attempts raise, some return NaN."""

    def reset(self, *, seed=None, options=None):
        observation, info = super().reset(seed=seed)
        if seed is not None and seed % 5 == 0:
            raise RuntimeError(f"seed {seed} is unlucky")
        self._poisoned = seed is not None and seed % 7 == 0
        return observation, info

    def step(self, action):
        observation, reward, *rest = super().step(action)
        return observation, float("nan") if self._poisoned else reward, *rest


class CostlyEnv(FlakyEnv):
    """Reports how far it is from the middle; an attempt in the wrong corner is a crash."""

    def step(self, action):
        *rest, _ = super().step(action)
        if self._state[1] > 1.2:
            raise RuntimeError("hit the corner")
        return (*rest, {"cost": {"place": abs(self._state[0]), "effort": float(action[0]) ** 2}})


class SlowEnv(TinyEnv):
    """Every third seed takes longer, so that with several workers episodes overtake each other."""

    def reset(self, *, seed=None, options=None):
        self._pause = 0.03 if seed is not None and seed % 3 == 0 else 0.0
        return super().reset(seed=seed)

    def step(self, action):
        time.sleep(self._pause)
        return super().step(action)


BOX = ("turbo", "crbo", "klbo", "rducb")
"""The Bayesian optimisers in a box."""


def searches() -> list[str]:
    """The names in the registry: `abs` is the paper's ABS with critics in closed form, `abs@cpu` the preset's.

    `turbo@m` is TuRBO with several regions.
    """
    from abps.search.registry import SEARCHES

    return [*SEARCHES, "abs@cpu", "turbo@m"]


def registered(search: str) -> str:
    """The name in the registry of one of `searches()`."""
    return search.partition("@")[0]


def tiny_config(
    search: str,
    *,
    critics: Any = None,
    design_std: float = 0.1,
    radius: float = 0.1,
    **changes: Any,
) -> Any:
    """Settings of a search under which an outer iteration takes milliseconds and every buffer overflows soon."""
    from abps.critics.lstd_config import Lstd, Split
    from abps.search.plan import CentreThenProbes
    from abps.search.registry import search_config
    from abps.settings import replace

    config: Any = search_config(registered(search), "tiny", "paper" if search == "abs" else "cpu")
    if search == "ars":
        return replace(config, **{"noise": 0.02, "directions": 2, "top": 1, **changes})
    if search == "abs@cpu":
        few = replace(config.prior.critics, episodes=4, features=8, rows=60, replay=50)
        plan = replace(config.plan, first_paths=2, window=4, path_size=min(max(design_std, 1e-3), 1.0))
        return replace(config, prior=replace(config.prior, critics=few), plan=plan, **changes)
    if hasattr(config, "strategy"):
        return _tiny_population(config, design_std, changes)
    if registered(search) in BOX:
        several = {"regions": 2} if search == "turbo@m" else {}
        return replace(config, optimiser=replace(config.optimiser, first_points=3, window=6, **several), **changes)
    config = replace(config, plan=CentreThenProbes(2, 2, 4, design_std), **changes)
    if search in ("abs", "mpd", "gibo"):
        config = replace(config, probing=replace(config.probing, starts=4, radius=radius))
    if search in ("abs", "ddpgn"):
        small = Lstd(features=Split(size=8), members=2, transitions=60, replay=50, groups=2)
        config = replace(config, prior=replace(config.prior, critics=critics or small))
    return config


def _tiny_population(config: Any, design_std: float, changes: dict[str, Any]) -> Any:
    """A population of four; it cannot be re-mapped, so that an asked-for re-mapping is switched off."""
    from abps.settings import replace

    spread = "sigma" if hasattr(config.strategy, "sigma") else "std"
    strategy = replace(config.strategy, population=4, **{spread: design_std})
    observations = changes.get("observations", config.observations)
    if observations.remaps:
        changes = {**changes, "observations": replace(observations, remap=False)}
    return replace(config, strategy=strategy, **changes)


def make_run(
    path: Path,
    search: str,
    *,
    env: str = "TinyEnv",
    episodes: int = 24,
    config: Any = None,
    limits: Any = None,
    constraint: tuple[str, ...] = (),
    **run: Any,
) -> Path:
    """Make the directory of a tiny run."""
    from abps.run.config import RunConfig
    from abps.run.directory import RunSettings, create_directory
    from abps.search.budget import BudgetConfig
    from abps.tasks.config import TaskConfig
    from abps.tasks.limits import Limits

    task = TaskConfig(
        id=f"killing:{env}", name="tiny", horizon=8, gamma=0.9, limits=limits or Limits(), constraint=constraint
    )
    config = tiny_config(search) if config is None else config
    settings = RunSettings(
        task, registered(search), config, BudgetConfig(episodes=episodes), RunConfig(evaluation_episodes=2, **run), 3
    )
    create_directory(path, settings)
    return path


class Zygote:
    """A process with everything imported, from which sessions of training are forked."""

    def __init__(self) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        environment["PYTHONPATH"] = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
        command = [sys.executable, str(HERE / "killing.py"), "--serve"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout

    def start(self, path: Path) -> int:
        """Begin a session on a run; return its process id."""
        self._send({"path": str(path)})
        return int(self._answer())

    def wait(self) -> int:
        """The session's exit code; minus the signal that ended it."""
        self._send({"wait": True})
        return int(self._answer())

    def close(self) -> None:
        self._stdin.close()
        self._process.wait(10)
        self._stdout.close()

    def _send(self, message: dict[str, Any]) -> None:
        self._stdin.write(json.dumps(message) + "\n")
        self._stdin.flush()

    def _answer(self) -> str:
        answer = self._stdout.readline()
        if not answer:
            raise RuntimeError("the process that forks sessions is gone")
        return answer


def serve() -> None:
    """Fork a session for every request; the sessions' own output goes to standard error."""
    import cma  # noqa: F401

    import abps.critics.closed_form
    import abps.optimisers.confidence
    import abps.optimisers.distribution
    import abps.optimisers.trees
    import abps.optimisers.turbo
    import abps.run.loop
    import abps.search.ars
    import abps.search.recipes  # noqa: F401

    pid = 0
    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            status = os.waitpid(pid, 0)[1]
            print(os.waitstatus_to_exitcode(status), flush=True)
            continue
        pid = os.fork()
        if pid == 0:
            os.dup2(2, 1)
            session(Path(request["path"]))
        print(pid, flush=True)


def session(path: Path) -> None:
    """Train a run from where it stands to its end, in a process of its own."""
    from abps.run.directory import read_settings
    from abps.run.loop import train

    code = 1
    try:
        train(path, read_settings(path))
        code = 0
    finally:
        os._exit(code)


def change_of(path: Path) -> tuple[Any, ...]:
    """Something that differs after every write to the run."""
    stamps = []
    for name in ("journal.jsonl", "episodes.bin", "metrics.jsonl", "policy", "checkpoint", "spool"):
        try:
            status = os.stat(path / name)
            stamps.append((status.st_size, status.st_mtime_ns))
        except OSError:
            stamps.append(None)
    return tuple(stamps)


def kill_session(zygote: Zygote, path: Path, rng: random.Random, length: float) -> bool:
    """Start a session and kill it at a random instant, or right after a random change of its files; True if it was
    in time."""
    pid = zygote.start(path)
    changes, seconds = (None, rng.uniform(0.0, length)) if rng.random() < 0.5 else (rng.randint(1, 25), length)
    if not _wait(path, changes, seconds):  # It came to its end before that: no need to wait any longer.
        return zygote.wait() == -signal.SIGKILL
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    return zygote.wait() == -signal.SIGKILL


def _wait(path: Path, changes: int | None, seconds: float) -> bool:
    """Wait so long, or for so many changes of a run's files; False as soon as the run is done."""
    before, deadline = change_of(path), time.monotonic() + seconds
    while changes != 0 and time.monotonic() < deadline:
        if (path / "DONE").exists():
            return False
        if changes is None:
            time.sleep(min(0.002, max(0.0, deadline - time.monotonic())))
            continue
        now = change_of(path)
        changes -= now != before
        before = now
    return True


def comparable(path: Path) -> dict[str, Any]:
    """Everything that two equal runs must have in common: all of a run's files but times and the stamp of versions."""
    from abps.run.metrics import without_times

    content: dict[str, Any] = {}
    for file in sorted(path.rglob("*")):
        name = str(file.relative_to(path))
        if file.is_dir() or name in ("lock", "versions.json"):
            continue
        if file.suffix == ".jsonl":
            content[name] = [without_times(json.loads(line)) for line in file.read_text().splitlines()]
        else:
            content[name] = file.read_bytes()
    return content


def differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """The names of files that are not the same in both runs."""
    return sorted(name for name in {*one, *other} if one.get(name) != other.get(name))


def journal_of(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a journal, times aside."""
    from abps.run.metrics import without_times

    file = path / "journal.jsonl"
    if not file.exists():
        return []
    return [without_times(json.loads(line)) for line in file.read_bytes().split(b"\n")[:-1]]


def kill_until(
    zygote: Zygote, reference: Path, path: Path, rng: random.Random, kills: int, length: float
) -> tuple[int, list[str]]:
    """Kill and resume a run `kills` times at most, let it end, and compare.

    Returns:
        How many sessions were really killed, and what is wrong (empty: nothing).
    """
    expected, killed, known = journal_of(reference), 0, 0
    for _ in range(kills):
        killed += kill_session(zygote, path, rng, length)
        journal = journal_of(path)
        if len(journal) < known or journal != expected[: len(journal)]:
            return killed, [f"the journal lost or changed an episode: {known} before, {len(journal)} after"]
        known = len(journal)
    zygote.start(path)
    code = zygote.wait()
    wrong = [] if code == 0 else [f"the last session ended with exit code {code}"]
    return killed, wrong + differences(comparable(reference), comparable(path))


if __name__ == "__main__" and "--serve" in sys.argv:
    serve()
