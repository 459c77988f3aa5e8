"""The searches do what those of abps 0.1.0 did: golden journals of pendulum and hopper, replayed.

Where numpy, scipy, MuJoCo and the processor are those of the recording, every column is compared bit for bit (the name
of the test ends in `exact`); elsewhere the norms of the parameters of the first outer iteration, to 1e-9 (`rounded`).

ABS with DroQ critics is compared up to the end of the first outer iteration's episodes, that is before anything that
critics had a part in: DroQ is trained by `jax.grad` and optax now, which add float32 numbers in another order than the
derivatives by hand did. After that the roles must be the same in the same order, and the norm of the first centre that
the critics had a part in may differ by a thousandth (measured: 2e-7 to 2e-4; benchmarks/golden has four such journals).
"""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from replaying import Golden, Row, exact_here, load, replay, settings_of

from abps.search.local import LocalSearchConfig
from abps.settings import replace

EPISODES = 26
"""Replayed of every journal: three outer iterations of a local search."""
JOURNALS = [load(path) for path in sorted((Path(__file__).parent / "journals").glob("*.json"))]
TOLERANCE = 1e-9
DROQ_TOLERANCE = 1e-3


def first_iteration(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row.iteration == 0]


def differences(golden: Golden, rows: list[Row], *, exact: bool) -> list[str]:
    """What is not as in the journal, in words."""
    pairs = list(zip(golden.rows, rows, strict=False))
    if exact:
        return [f"episode {k}: {old} became {new}" for k, (old, new) in enumerate(pairs) if old != new]
    return [
        f"episode {k}: |θ| {old.parameters_norm!r} became {new.parameters_norm!r}"
        for k, (old, new) in enumerate(pairs)
        if (old.query, old.role, old.iteration) != (new.query, new.role, new.iteration)
        or abs(old.parameters_norm - new.parameters_norm) > TOLERANCE * max(old.parameters_norm, 1.0)
    ]


def has_droq(golden: Golden) -> bool:
    return golden.options["search"] == "abs" and golden.options.get("critics.kind") != "lstd"


def mode(golden: Golden) -> str:
    return "exact" if exact_here(golden) else "rounded"


@pytest.mark.parametrize("golden", JOURNALS, ids=lambda golden: f"{golden.name}-{mode(golden)}")
def test_journal_is_reproduced(golden: Golden) -> None:
    exact, droq = exact_here(golden), has_droq(golden)
    rows = list(replay(golden, episodes=EPISODES if exact or droq else len(first_iteration(golden.rows))))
    assert rows
    compared = rows if exact and not droq else first_iteration(rows)
    assert differences(golden, compared, exact=exact) == []
    assert [(row.query, row.role) for row in rows] == [(row.query, row.role) for row in golden.rows[: len(rows)]]
    if droq:
        assert len(rows) == EPISODES
        old, new = (next(row for row in part if row.iteration == 1) for part in (golden.rows, rows))
        assert new.parameters_norm == pytest.approx(old.parameters_norm, rel=DROQ_TOLERANCE)


def test_every_search_and_task_is_covered() -> None:
    found = {(golden.options["task"], golden.options["search"], golden.options["preset"]) for golden in JOURNALS}
    for task in ("pendulum", "hopper"):
        for search in ("mpd", "gibo", "ars"):
            assert {(task, search, "cpu"), (task, search, "paper")} <= found
        assert {(task, "abs", "paper"), (task, "ddpgn", "paper")} <= found
    assert {golden.options["seed"] for golden in JOURNALS} == {"0", "1"}


def test_a_slightly_longer_step_is_noticed() -> None:
    """Negative control: a step longer by 1e-7 of itself changes the next centre's checksum and nothing before it."""
    golden = next(journal for journal in JOURNALS if journal.name.startswith("pendulum-mpd"))
    config = settings_of(golden)
    assert isinstance(config, LocalSearchConfig)
    step = replace(config.step, length=config.step.length * (1 + 1e-7))  # type: ignore[attr-defined]
    rows = list(replay(golden, replace(config, step=step), episodes=16))
    first = len(first_iteration(golden.rows))
    assert differences(golden, rows[:first], exact=exact_here(golden)) == []
    assert differences(golden, rows, exact=exact_here(golden))
    assert f"episode {first}" in differences(golden, rows, exact=True)[0] or not exact_here(golden)
