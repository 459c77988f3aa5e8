"""The paper's six tasks and its Tables 1 to 3, as settings; and defaults for every other task.

`paper` follows the paper's tables; `cpu` differs in ABS (critics in closed form, shorter and more frequent steps; docs/deviations.md 32), in GIBO, and in ARS, which is the
original one under `cpu` (clipped linear policies, undiscounted returns less the survival bonus) and the ABS paper's variant
under `paper` (tanh policies, discounted returns, no shift). All six tasks are tuned by the paper's authors; any other task
gets `GENERIC`, which is untuned.
"""

from dataclasses import dataclass
from typing import Any

from abps.config import (
    AbsConfig,
    AcquisitionConfig,
    ArsConfig,
    CriticsConfig,
    DdpgnConfig,
    GiboConfig,
    GpConfig,
    MpdConfig,
    TaskConfig,
    replace,
)
from abps.errors import ConfigError

__all__ = ["PAPER_TASKS", "PRESETS", "TASK_EPISODES", "search_config", "task_config"]

PRESETS = ("cpu", "paper")


@dataclass(frozen=True)
class _PaperTask:
    """One row of the paper's Tables 2 and 3 with what FACTS.md adds (design std, reward scale, episode budget, ARS)."""

    env: str
    gamma: float
    reward_scale: float
    normalise: bool
    episodes: int
    design_std: float
    counts: tuple[int, int, int]
    """N_c, N_acq, N_max."""
    abs_step: float
    abs_lengthscales: tuple[float, float]
    mpd_lengthscales: tuple[float, float]
    ars: tuple[float, float, int, int]
    """α, ν, N, b of the original ARS V2-t (Swimmer and InvertedPendulum: V1)."""
    ars_shift: float
    """Survival bonus that the original ARS subtracts from every reward; with it, standing still looks like progress."""
    paper_ars: tuple[float, float, int, int]
    """α, ν, N, b of the ABS paper's ARS."""
    widening: float = 1.0
    """`cpu` only: lengthscale bounds, design std and ABS's δ are multiplied by it (where the paper's bounds were too narrow)."""


PAPER_TASKS: dict[str, _PaperTask] = {
    "pendulum": _PaperTask(
        "InvertedPendulum", 0.99, 100.0, False, 1000, 0.02, (2, 6, 21), 0.005, (0.0025, 0.05), (0.0025, 0.05),
        # The original has no row for it: the ABS paper's, times the action bound of 3 that its tanh policy multiplies by.
        (0.06, 0.06, 3, 2), 0.0, (0.02, 0.02, 3, 2), widening=2.0,
    ),
    "swimmer": _PaperTask(
        "Swimmer", 0.995, 65.0, False, 1000, 0.01, (3, 12, 39), 0.0025, (0.0025, 0.05), (0.0025, 0.05),
        (0.02, 0.01, 1, 1), 0.0, (0.02, 0.01, 1, 1), widening=2.0,
    ),
    "hopper": _PaperTask(
        "Hopper", 0.99, 270.0, True, 5000, 0.025, (3, 16, 51), 0.0025, (0.0025, 0.05), (0.0025, 0.025),
        (0.01, 0.025, 8, 4), 1.0, (0.01, 0.025, 8, 4),
    ),
    "cheetah": _PaperTask(
        "HalfCheetah", 0.99, 400.0, True, 5000, 0.03, (4, 20, 63), 0.0025, (0.00125, 0.025), (0.00125, 0.025),
        (0.02, 0.03, 32, 4), 0.0, (0.02, 0.03, 32, 4),
    ),
    "walker": _PaperTask(
        "Walker2d", 0.99, 300.0, True, 14000, 0.025, (4, 20, 63), 0.0025, (0.000625, 0.0125), (0.000625, 0.0125),
        (0.03, 0.025, 40, 30), 1.0, (0.02, 0.025, 40, 30),
    ),
    "ant": _PaperTask(
        "Ant", 0.99, 400.0, True, 14000, 0.025, (5, 24, 75), 0.0025, (0.000625, 0.0125), (0.000625, 0.0125),
        (0.015, 0.025, 60, 20), 1.0, (0.015, 0.025, 60, 40),
    ),
}  # fmt: skip

GENERIC = _PaperTask(
    "", 0.99, 0.0, True, 1000, 0.025, (3, 16, 51), 0.0025, (0.0025, 0.05), (0.0025, 0.05),
    (0.02, 0.025, 8, 4), 0.0, (0.02, 0.025, 8, 4),
)  # fmt: skip

TASK_EPISODES = {name: row.episodes for name, row in PAPER_TASKS.items()}
"""Episodes on the paper's x-axes."""


PAPER_CRITICS = CriticsConfig(kind="droq", members=5)
"""Five DroQ pairs with the budget of the paper."""

NOISE_FACTOR = 10.0
"""The `cpu` preset's ABS searches σ_n in a wider range than the paper's factor 3, which was too narrow in the first critic study."""

ABS_LENGTHSCALES = (0.02, 0.1)
"""The `cpu` preset's ABS, where the paper's bounds are not merely widened. The paper's bounds are so short that the window's noise becomes gradient and hides what the critics know
(benchmarks/critics/README.md, the first study)."""

ABS_COUNTS = (2, 8)
"""The `cpu` preset's ABS: N_c and N_acq. Its critics learn from all recent episodes, so that it can step more often than the paper's 19 to 29 episodes allow."""

ACTION_CAP, BACKTRACK = 0.04, 0.5
"""The `cpu` preset's ABS: largest change of the actions in one step, and the loss, in spreads of the window's returns, that is taken back. Around a good policy
even the true gradient gains nothing beyond that change (benchmarks/critics/GAINS.md), and without them a step now and then undoes all that was learned."""

GIBO_LENGTHSCALES, GIBO_STEP = (0.8, 4.0), 0.7
"""The `cpu` preset's GIBO: lengthscale bounds relative to the upper one of the paper's tables, and the step in lengthscales. GIBO's step shrinks with
a coordinate's lengthscale, so that a coordinate fitted at a very low one, as those that matter most are, would hardly move."""


def task_config(name: str, search: str = "", preset: str = "cpu") -> TaskConfig:
    """Settings of a task by short name (`hopper`, `hopper-v5`), Gymnasium id, or `module:factory`.

    Args:
        name: the task.
        search: the search that will work on it; ARS comes with its own policy class and survival shift.
        preset: one of `PRESETS`.

    Raises:
        ConfigError: the name is empty.
    """
    if not name:
        raise ConfigError("a task needs a name: one of `abps tasks`, a Gymnasium id, or module:factory")
    row, config = _row(name), _base_task_config(name)
    if search == "ars" and preset == "cpu":
        return replace(config, policy="direct", reward_shift=row.ars_shift)
    return config


def _row(task: str) -> _PaperTask:
    """The table's row of a task; a Gymnasium id such as Hopper-v4 is no short name and gets the generic one."""
    short, _, version = task.partition("-")
    return PAPER_TASKS[short] if short in PAPER_TASKS and version in ("", "v4", "v5") else GENERIC


def _base_task_config(name: str) -> TaskConfig:
    row = _row(name)
    if row is not GENERIC:
        return TaskConfig(
            id=f"{row.env}-{name.partition('-')[2] or 'v4'}",
            name=name,
            gamma=row.gamma,
            reward_scale=row.reward_scale,
            normalise=row.normalise,
        )
    return TaskConfig(id=name, name=name)


def search_config(search: str, task: str, preset: str = "cpu") -> Any:
    """Settings of a search on a task: the paper's where it has them.

    Raises:
        ConfigError: unknown search or preset.
    """
    if preset not in PRESETS:
        raise ConfigError(f"unknown preset {preset!r}; known: {', '.join(PRESETS)}")
    row = _row(task)
    makers = {"abs": _abs, "mpd": _mpd, "gibo": _gibo, "ddpgn": _ddpgn, "ars": _ars}
    if search not in makers:
        raise ConfigError(f"unknown search {search!r}; known: {', '.join(makers)}")
    return makers[search](row, preset)


def _widening(row: _PaperTask, preset: str) -> float:
    return row.widening if preset == "cpu" else 1.0


def _shared(row: _PaperTask, lengthscales: tuple[float, float], preset: str) -> dict[str, Any]:
    factor = _widening(row, preset)
    low, high = lengthscales[0] * factor, lengthscales[1] * factor
    return {
        "centre_episodes": row.counts[0],
        "probes": row.counts[1],
        "window": row.counts[2],
        "design_std": row.design_std * factor,
        "gp": GpConfig(lengthscale_low=low, lengthscale_high=high),
        "acquisition": AcquisitionConfig(),
    }


def _abs(row: _PaperTask, preset: str) -> AbsConfig:
    config = AbsConfig(**_shared(row, row.abs_lengthscales, preset), step=row.abs_step * _widening(row, preset))
    if preset == "paper":
        return replace(config, critics=PAPER_CRITICS)
    # Where critics fail, their weights must see it: softmax weights add up to one whatever happens (benchmarks/critics).
    config = replace(
        config, gp=replace(config.gp, noise_factor=NOISE_FACTOR), aggregation="evidence", evidence_prior=1.0
    )
    return config if row.widening > 1.0 else _careful(config)


def _careful(config: AbsConfig) -> AbsConfig:
    """Longer lengthscales, probes nearby, and many small steps that neither a worse centre nor a new normaliser undoes."""
    (low, high), (centre_episodes, probes) = ABS_LENGTHSCALES, ABS_COUNTS
    return replace(
        config,
        centre_episodes=centre_episodes,
        probes=probes,
        remap=True,
        anchor=True,
        gp=replace(config.gp, lengthscale_low=low, lengthscale_high=high),
        # Longer lengthscales would send the probes far away, where a good policy's return says little about its gradient.
        acquisition=replace(config.acquisition, radius=config.design_std),
        action_cap=ACTION_CAP,
        curvature=True,
        backtrack=BACKTRACK,
    )


def _ddpgn(row: _PaperTask, preset: str) -> DdpgnConfig:
    config = DdpgnConfig(**_shared(row, row.abs_lengthscales, preset))
    return replace(config, critics=PAPER_CRITICS) if preset == "paper" else config


def _mpd(row: _PaperTask, preset: str) -> MpdConfig:
    return MpdConfig(**_shared(row, row.mpd_lengthscales, preset))


def _gibo(row: _PaperTask, preset: str) -> GiboConfig:
    config = GiboConfig(**_shared(row, row.mpd_lengthscales, preset))
    if preset == "paper":
        return config
    low, high = (factor * row.mpd_lengthscales[1] for factor in GIBO_LENGTHSCALES)
    return replace(config, gp=replace(config.gp, lengthscale_low=low, lengthscale_high=high), step=GIBO_STEP)


def _ars(row: _PaperTask, preset: str) -> ArsConfig:
    step, noise, directions, top = row.paper_ars if preset == "paper" else row.ars
    return ArsConfig(step=step, noise=noise, directions=directions, top=top, discounted=preset == "paper")
