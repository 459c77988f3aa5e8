"""GIBO's step by hand."""

import numpy as np
import pytest


@pytest.mark.parametrize("normalise", [True, False])
def test_the_step_is_the_gradient_in_units_of_the_lengthscales(lab, normalise):
    task = lab.lqr(2, 2)
    search = lab.search("gibo", task, step=0.7, normalise_gradient=normalise)
    lab.run(search, task, 5)
    hyper, points, theta = search.hyper, search.points, search.centre
    scale = hyper.lengthscales * 2.0  # √d
    kernel = hyper.signal**2 * np.exp(-0.5 * (((points[:, None] - points) / scale) ** 2).sum(-1))
    kernel += hyper.noise**2 * np.eye(len(points))
    slope = hyper.signal**2 * np.exp(-0.5 * (((points - theta) / scale) ** 2).sum(-1))
    mu = (((points - theta) / scale**2) * slope[:, None]).T @ np.linalg.solve(kernel, search.returns - hyper.mean)
    expected = 0.7 * scale * (mu / np.linalg.norm(mu) if normalise else mu)
    taken = search._move().centre - theta
    assert np.allclose(taken, expected, rtol=1e-4, atol=1e-6 * np.abs(expected).max())
    assert not np.allclose(taken, expected / np.linalg.norm(expected), rtol=1e-2)  # Not a unit step: the control.


def test_a_flat_posterior_stays(lab, monkeypatch):
    task = lab.lqr()
    search = lab.search("gibo", task)
    lab.run(search, task, 5)
    monkeypatch.setattr(type(search), "returns", property(lambda self: np.full(len(self.window), self.hyper.mean)))
    search._posterior = None
    assert np.array_equal(search._move().centre, search.centre)


def test_probes_do_not_depend_on_the_returns(lab):
    """The trace criterion sees where points are, not what they returned; the hyper-parameters are held fixed here."""
    task = lab.lqr()
    asked = []
    for factor in (1.0, -1.0):
        search = lab.search("gibo", task)
        lab.run(search, task, 3)
        for point in search.window.points:
            point.returns[:] *= factor
        search._posterior = None
        asked.append(search.ask().parameters)
    assert np.array_equal(*asked)
