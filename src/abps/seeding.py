"""Random numbers from explicit keys: every draw is named by the run's seed and a path.

There is no random *state* anywhere in the project. A generator is derived, used at once and dropped; the same path
gives the same numbers whatever happened before, in which process, and after how many interruptions.
"""

import zlib

import numpy as np
from numpy.typing import NDArray

__all__ = ["episode_seed", "generator", "integer_seed", "sobol"]


def _entropy(seed: int, path: tuple[str | int, ...]) -> list[int]:
    words = [zlib.crc32(part.encode()) if isinstance(part, str) else int(part) for part in path]
    return [int(seed), *words]


def generator(seed: int, *path: str | int) -> np.random.Generator:
    """Return the generator named by `seed` and `path`.

    Args:
        seed: the run's seed, a non-negative integer.
        path: what the numbers are for, e.g. `("acquisition", iteration, probe)`. One purpose always has equally many
            parts: a path and the same path with zeros appended are one to numpy.

    Returns:
        A fresh `numpy.random.Generator`; two different paths are statistically independent.
    """
    return np.random.default_rng(np.random.SeedSequence(_entropy(seed, path)))


def integer_seed(seed: int, *path: str | int) -> int:
    """Return a 31-bit integer seed for software that takes no generator (Gymnasium's `reset(seed=…)`)."""
    return int(np.random.SeedSequence(_entropy(seed, path)).generate_state(1)[0] >> 1)


def episode_seed(seed: int, episode: int, attempt: int = 0) -> int:
    """Return the seed of an attempt at a training episode; it follows from the search's seed and their numbers alone.

    Args:
        seed: the search's.
        episode: its number among all that were asked for.
        attempt: how often it was tried before.
    """
    return integer_seed(seed, "episode", episode, attempt)


def sobol(rng: np.random.Generator, dimension: int, count: int) -> NDArray[np.float64]:
    """Return scrambled Sobol points (count, dimension) of the unit cube.

    They are drawn up to the next power of two, as the sequence wants, and cut.
    """
    from scipy.stats import qmc  # Slow to import, and few need it.

    power = int(np.ceil(np.log2(max(count, 2))))
    return qmc.Sobol(dimension, scramble=True, rng=rng).random_base2(power)[:count]
