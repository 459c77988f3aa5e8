"""A neighbourhood on which steps are taken, and a model of it."""

import pytest


@pytest.fixture(scope="session")
def near():
    """Two outer iterations on an LQR with four parameters."""
    from lqr_lab import iterations, lqr

    return iterations(lqr(2, 2)).neighbourhood()


@pytest.fixture(scope="session")
def model(near):
    """A fitted process with a constant mean."""
    from lqr_lab import constant_model

    return constant_model(near)
