"""Makes the oracles importable under their plain names, and gives a neighbourhood on which steps are taken."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "oracles"))


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
