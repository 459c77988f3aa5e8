"""The paper's Tables 2 and 3 with what FACTS adds (design std, ARS): absolute lengths of its six tasks.

They belong to the preset `paper`, and to MPD and GIBO, which have no lengths in units of action of their own.
"""

from dataclasses import dataclass

from abps.tasks.catalogue import paper_task

__all__ = ["PaperRow", "paper_row"]


@dataclass(frozen=True)
class PaperRow:
    """One task's row."""

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
    """`cpu` only: lengthscale bounds and design std are multiplied by it, where the paper's bounds were too narrow."""


ROWS: dict[str, PaperRow] = {
    "pendulum": PaperRow(
        0.02, (2, 6, 21), 0.005, (0.0025, 0.05), (0.0025, 0.05),
        # The original has no row for it: the ABS paper's, times the action bound of 3 that its tanh policy multiplies
        # by.
        (0.06, 0.06, 3, 2), 0.0, (0.02, 0.02, 3, 2), widening=2.0,
    ),
    "swimmer": PaperRow(
        0.01, (3, 12, 39), 0.0025, (0.0025, 0.05), (0.0025, 0.05),
        (0.02, 0.01, 1, 1), 0.0, (0.02, 0.01, 1, 1), widening=2.0,
    ),
    "hopper": PaperRow(
        0.025, (3, 16, 51), 0.0025, (0.0025, 0.05), (0.0025, 0.025),
        (0.01, 0.025, 8, 4), 1.0, (0.01, 0.025, 8, 4),
    ),
    "cheetah": PaperRow(
        0.03, (4, 20, 63), 0.0025, (0.00125, 0.025), (0.00125, 0.025),
        (0.02, 0.03, 32, 4), 0.0, (0.02, 0.03, 32, 4),
    ),
    "walker": PaperRow(
        0.025, (4, 20, 63), 0.0025, (0.000625, 0.0125), (0.000625, 0.0125),
        (0.03, 0.025, 40, 30), 1.0, (0.02, 0.025, 40, 30),
    ),
    "ant": PaperRow(
        0.025, (5, 24, 75), 0.0025, (0.000625, 0.0125), (0.000625, 0.0125),
        (0.015, 0.025, 60, 20), 1.0, (0.015, 0.025, 60, 40),
    ),
    "": PaperRow(
        0.025, (3, 16, 51), 0.0025, (0.0025, 0.05), (0.0025, 0.05),
        (0.02, 0.025, 8, 4), 0.0, (0.02, 0.025, 8, 4),
    ),
}  # fmt: skip


def paper_row(task: str) -> PaperRow:
    """The row of a task by any of its names; a task that the paper does not have gets a generic, untuned one."""
    return ROWS[paper_task(task)]
