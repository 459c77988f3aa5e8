"""A run as a Python object: its policies, its numbers, fresh episodes and a report."""

import shutil
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from abps.api.resolve import as_path, whole_number
from abps.api.temporary import TemporaryFolder
from abps.errors import ConfigError, RunError
from abps.policies.policy import Policy, PolicySpace, load_policy
from abps.rollouts.pool import make_pool
from abps.run.directory import RunSettings, read_settings
from abps.run.evaluation import Evaluation, evaluate
from abps.run.files import parse_checked_json
from abps.study.records import Run as Record
from abps.study.records import load_run
from abps.tasks.gym import Task, TaskLike, make_task
from abps.words import count

__all__ = ["RunResult", "TrainedRun", "load"]

JUDGING_EPISODES = 20
"""Fresh episodes that each candidate for the best policy runs."""


class RunResult(NamedTuple):
    """How a run ended, in numbers.

    Example:
        >>> import abps
        >>> result = abps.train("pendulum", "ars", episodes=16, horizon=20).result
        >>> result.episodes, result.iterations, result.stopped
        (16, 2, {'episodes': '16 of 16 episodes are used'})
    """

    episodes: int
    """Training episodes used."""
    steps: int
    iterations: int
    """Outer iterations finished."""
    failures: int
    """Episodes that failed."""
    seconds: float
    stopped: dict[str, str]
    """Why it ended, by name; empty: it is unfinished."""
    current_return: float | None
    """Mean undiscounted return of the current policy in the last evaluation."""
    max_return: float | None
    """The highest mean return that any evaluated policy had: lucky ones included."""


class TrainedRun:
    """A run, as `abps.train` and `abps.load` give it; call `policy` with observations to act.

    Example:
        >>> import abps
        >>> run = abps.train("pendulum", "ars", episodes=16, seed=1, horizon=50)
        >>> run.policy([0.0, 0.01, 0.0, 0.0]).shape, run.policy([[0.0] * 4] * 7).shape
        ((1,), (7, 1))
        >>> run.evaluate(episodes=5).mean == run.evaluate(episodes=5).mean
        True
        >>> len(run.history), run.report("run.html").name
        (2, 'run.html')
    """

    def __init__(
        self,
        path: Path,
        settings: RunSettings,
        task: Task | None = None,
        keep: TemporaryFolder | None = None,
    ) -> None:
        self.settings = settings
        """Everything that defines the run, as in its `config.yaml`."""
        self._path, self._task, self._keep = path, task, keep

    @property
    def path(self) -> Path | None:
        """Its directory; None for a run that is only in memory."""
        return None if self._keep is not None else self._path

    @property
    def task(self) -> Task:
        """What was controlled; made again when the run was loaded.

        Raises:
            RunError: the run belongs to a robot.
            TaskError: it cannot be made here.
        """
        if self.settings.hardware is not None:
            raise RunError(f"{self._path} is a run on real hardware: there is no simulator to run its policy in")
        if self._task is None:
            self._task = make_task(self.settings.task)
        return self._task

    @property
    def policy(self) -> Policy:
        """The policy to use: `current`."""
        return self.current

    @cached_property
    def current(self) -> Policy:
        """The policy that the search believes in: what it would hand over.

        Raises:
            RunError: no outer iteration was finished.
        """
        return self._policy("current")

    @cached_property
    def best(self) -> Policy:
        """The better one, in 20 fresh episodes each, of the current policy and of the one with the highest evaluation.

        The highest of many evaluations is partly luck, so both are judged again, from the same initial states; when
        they are equal it is the current one. They are run when `best` is first asked for. Where no episode can be run
        (a robot, no outer iteration evaluated) it is the current policy.
        """
        if self.settings.hardware is not None or not (self._path / "policy" / "best.npz").is_file():
            return self.current
        current, lucky = self.current, self._policy("best")
        if _same(current, lucky):
            return current
        ours, theirs = self._evaluate([current, lucky], JUDGING_EPISODES, self.settings.seed, "best")
        better = theirs.mean is not None and (ours.mean is None or theirs.mean > ours.mean)
        return lucky if better else current

    @cached_property
    def result(self) -> RunResult:
        """How it ended, in numbers."""
        record, last = self._record, self.history[-1] if self.history else {}
        said = [line.partition(": ") for line in record.reason.splitlines()] if record.status == "done" else []
        stopped = {name: reason for name, _, reason in said}
        journal = _journal(self._path)
        return RunResult(
            episodes=len(journal),
            steps=sum(int(line.get("steps") or 0) for line in journal),
            iterations=len(self.history),
            failures=record.failed_episodes,
            seconds=float(last.get("seconds") or 0.0),
            stopped=stopped,
            current_return=last.get("eval_return"),
            max_return=last.get("max_return"),
        )

    @cached_property
    def history(self) -> list[dict[str, Any]]:
        """The metrics of every outer iteration (docs/metrics.md); `pandas.DataFrame(run.history)` makes a table."""
        return [dict(row) for row in self._record.metrics]

    def evaluate(self, episodes: int = 20, *, policy: Policy | None = None, seed: int = 0) -> Evaluation:
        """Run fresh episodes, as `abps evaluate` does: the same numbers for the same seed.

        Args:
            episodes: how many.
            policy: which; None: the current one.
            seed: of the evaluation's own random stream.

        Raises:
            RunError: the run belongs to a robot.
            TaskError: the environment cannot be made here; `abps.load(path, task=env)` brings it.
        """
        whole_number(episodes, "episodes", 1)
        whole_number(seed, "seed", 0)
        return self._evaluate([policy or self.current], episodes, seed, "command")[0]

    def report(self, out: str | Path | None = None) -> Path:
        """Write one HTML file about the run and return its path.

        Args:
            out: the file; None: `report.html` in the run's directory, or here when the run is only in memory.
        """
        from abps.study.report import write_report

        file = as_path(out, "out") if out is not None else (self.path or Path()) / "report.html"
        write_report([self._record], file)
        return file

    def save(self, path: str | Path) -> "TrainedRun":
        """Copy the run to a directory, which `abps resume`, `abps report` and all other commands take.

        Raises:
            ConfigError: it is no path.
            RunError: there is something already, or the disk refuses.
        """
        target = as_path(path, "path")
        if target.exists():
            raise RunError(f"{target} exists already; save the run under another name")
        try:
            shutil.copytree(self._path, target, ignore=shutil.ignore_patterns("lock"))
        except (OSError, shutil.Error) as error:
            raise RunError(f"cannot save the run in {target}: {error}") from error
        return TrainedRun(target, self.settings, self._task)

    def __repr__(self) -> str:
        result, settings = self.result, self.settings
        place = "in memory" if self.path is None else f"in {self.path}"
        learned = "" if result.current_return is None else f", the current policy returns {result.current_return:.4g}"
        used = f"{count(result.episodes, 'episode')} of {settings.task.name}"
        return f"<abps run {place}: {settings.search}, seed {settings.seed}, {used}{learned}>"

    # ---- inside -----------------------------------------------------------------------------------------------------

    @cached_property
    def _record(self) -> Record:
        return load_run(self._path)

    def _policy(self, which: str) -> Policy:
        file = self._path / "policy" / f"{which}.npz"
        if not file.is_file():
            used = count(self.result.episodes, "episode")
            raise RunError(f"the run has no {which} policy: no outer iteration was finished in {used}; give it more")
        stored = load_policy(file, self.settings.search_config.policy)
        if self._task is None:
            return stored
        return _on_task(stored, self._task)

    def _evaluate(self, policies: list[Policy], episodes: int, seed: int, *path: Any) -> list[Evaluation]:
        pool = make_pool(self.task)
        try:
            return evaluate(pool, [_on_task(policy, self.task) for policy in policies], episodes, seed, *path)
        finally:
            pool.close()


def load(path: str | Path, *, task: TaskLike | None = None) -> TrainedRun:
    """Return a run from disk, as `abps.train` gives it; nothing is run, no environment is made yet.

    Args:
        path: a run directory, e.g. `runs/hopper/abs/seed-0`.
        task: the environment, its class or a function that makes it, for a run whose settings cannot name one.

    Raises:
        RunError: there is no run, or its settings are damaged.

    Example:
        >>> import abps
        >>> trained = abps.train("pendulum", "ars", episodes=16, horizon=50, out="runs/here")
        >>> run = abps.load("runs/here")
        >>> run.settings.search, run.result.episodes, (run.policy.parameters == trained.policy.parameters).all()
        ('ars', 16, np.True_)
    """
    try:
        folder = Path(path)
    except TypeError as error:
        raise ConfigError(f"a run is loaded from its directory, got {path!r:.80}") from error
    if folder.is_file():
        raise RunError(f"{folder} is a file; `abps.load` takes a run directory, `abps.load_policy` a policy file")
    settings = read_settings(folder)
    made = None
    if task is not None:
        kept = settings.task
        made = make_task(task, name=kept.name, gamma=kept.gamma, horizon=kept.horizon, reward_scale=kept.reward_scale)
    return TrainedRun(folder, settings, made)


def _journal(path: Path) -> list[dict[str, Any]]:
    """The lines of a run's journal that are whole."""
    try:
        with (path / "journal.jsonl").open("rb") as file:
            return [line for text in file if (line := parse_checked_json(text)) is not None]
    except OSError:
        return []


def _on_task(policy: Policy, task: Task) -> Policy:
    """The policy with everything that is known of the task; a file does not say horizon and discount."""
    have, want = policy.spec, task.spec
    if (have.observation_dim, have.action_dim) != (want.observation_dim, want.action_dim):
        raise RunError(
            f"the policy takes {have.observation_dim} observations and gives {have.action_dim} actions; the task "
            f"{want.name!r} has {want.observation_dim} and {want.action_dim}"
        )
    return PolicySpace(policy.space.policy_class, want).policy(policy.parameters, policy.normaliser)


def _same(left: Policy, right: Policy) -> bool:
    ours, theirs = left.arrays(), right.arrays()
    return ours.keys() == theirs.keys() and all(np.array_equal(ours[name], theirs[name]) for name in ours)
