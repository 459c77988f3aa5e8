"""The paper's plan: which stage follows which, in every situation; wrong settings."""

import pytest

from abps.errors import ConfigError
from abps.search.plan import CentreThenProbes, Situation, Stage

PLAN = CentreThenProbes(centre_episodes=2, probes=3, window=6, design_std=0.03)
CENTRE, DESIGN = Stage("centre", centre_episodes=2), Stage("design", gaussian=5, std=0.03)
PROBE = Stage("probe", probe=True)


@pytest.mark.parametrize(
    ("iteration", "stage", "probes", "points", "expected"),
    [
        (0, "", 0, 0, CENTRE),
        (0, "centre", 0, 1, DESIGN),
        (0, "design", 5, 6, None),
        (1, "", 0, 6, CENTRE),
        (1, "centre", 0, 6, PROBE),
        (1, "probe", 2, 6, PROBE),
        (1, "probe", 3, 6, None),
        (1, "centre", 0, 1, DESIGN),  # The first centre failed: nothing but this one is known.
        (1, "design", 5, 6, None),
    ],
)
def test_what_follows_what(iteration: int, stage: str, probes: int, points: int, expected: Stage | None) -> None:
    assert PLAN.next(Situation(iteration, stage, probes, points, horizon=30)) == expected


def test_a_window_of_one_point_still_has_a_design() -> None:
    stage = CentreThenProbes(window=1).next(Situation(0, "centre", 0, 1, horizon=30))
    assert stage is not None
    assert stage.gaussian == 1


@pytest.mark.parametrize("name", ["centre_episodes", "probes", "window", "design_std"])
def test_wrong_settings_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        CentreThenProbes(**{name: 0})
