"""What policies see: raw observations, or running statistics with or without their mean frozen."""

import numpy as np
import pytest

from abps.normaliser import Normaliser
from abps.policies.observations import RawObservations, RunningNormaliser


@pytest.fixture
def statistics():
    rng = np.random.default_rng(0)
    return tuple(Normaliser.empty(2).add(shift + rng.normal(size=(20, 2))) for shift in (0.0, 5.0))


def test_raw_observations_are_never_normalised(statistics):
    old, fresh = statistics
    assert RawObservations().updated(old, fresh) is old
    assert not RawObservations().remaps


def test_running_statistics_take_in_what_was_seen(statistics):
    old, fresh = statistics
    merged, frozen = (RunningNormaliser(freeze_mean=freeze).updated(old, fresh) for freeze in (False, True))
    np.testing.assert_array_equal(merged.mean, old.merge(fresh).mean)
    np.testing.assert_array_equal(merged.m2, old.merge(fresh).m2)
    np.testing.assert_array_equal(frozen.mean, old.mean)
    np.testing.assert_array_equal(frozen.m2, old.widen(fresh).m2)
    assert not np.allclose(merged.mean, old.mean)
    assert (frozen.std > merged.std).all()
    assert (RunningNormaliser().remaps, RunningNormaliser(remap=True).remaps) == (False, True)
