"""A local search whose prior is the learned model's (covers model/model_prior.py inside a search)."""

from typing import Any

import numpy as np

from abps.model.model_prior import ModelBasedPrior
from abps.search.registry import search_config
from abps.settings import replace


def test_a_search_with_it_goes_on_bit_for_bit(lab: Any) -> None:
    config: Any = search_config("abs", "lqr", "cpu")
    config = replace(config, prior=ModelBasedPrior(beside=config.prior), plan=replace(config.plan, first_paths=3))
    task = lab.lqr(2, 1, noise=0.05, horizon=30)
    search = config.make(task.spec, seed=0)
    for _ in range(4):
        lab.stage(search, task)
    other = config.make(task.spec, seed=0)
    other.load(search.state())
    for _ in range(2):
        ours, theirs = (np.concatenate([q.parameters for q in lab.stage(one, task)[0]]) for one in (search, other))
        np.testing.assert_array_equal(ours, theirs)
    assert "model_weight" in search.result().history[-1]
