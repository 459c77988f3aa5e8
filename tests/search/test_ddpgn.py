"""The critics-only ablation: Gaussian probes, a step of fixed length along ∇m̂."""

import numpy as np


def test_the_step_follows_the_critics_and_has_the_given_length(lab):
    task = lab.lqr()
    search = lab.search("ddpgn", task, step=0.07)
    lab.run(search, task, 5)
    step = search._move().centre - search.centre
    gradient = search.mean_gradient()
    assert np.allclose(step, 0.07 * gradient / np.linalg.norm(gradient))
    assert not np.allclose(step, 0.07 * search.posterior.mu / np.linalg.norm(search.posterior.mu), rtol=1e-3)


def test_probes_are_gaussian_and_do_not_depend_on_the_model(lab):
    task = lab.lqr()
    search = lab.search("ddpgn", task, probes=100, window=120, design_std=0.02)
    lab.run(search, task, 3)
    moves = [search._choose_probe(np.random.default_rng(seed)) - search.centre for seed in range(400)]
    assert abs(np.std(moves) / 0.02 - 1) < 0.1
    assert abs(np.mean(moves)) < 0.003


def test_no_gradient_no_step(lab, monkeypatch):
    task = lab.lqr()
    search = lab.search("ddpgn", task)
    lab.run(search, task, 3)
    monkeypatch.setattr(type(search), "mean_gradient", lambda self: np.zeros(2))
    assert np.array_equal(search._move().centre, search.centre)
