"""The process of one constraint: P(an episode's cost ≤ limit) at any policy, with critics of its own.

The same parts as the model of the return, fitted to costs in place of returns: the chart of the actions, the slope
prior with critics of few episodes, the Gaussian process. In units of the *margin* u (how far usual episodes stay below
the limit) the process sees

    y = min((cost − limit) / u, 1),        a crash: y = 1, as far above the limit as usual episodes are below it,
    P(cost(x) ≤ limit) = Φ(z(x)),          z(x) = −mean(x) / √(var(x) + σ_n²),

so that P speaks of one more episode, noise included, not of its mean. σ_f is never below max(1, −m)/z_p with m the
fitted constant and z_p = Φ⁻¹(p): where the kernel knows nothing, nothing is safe.

Episodes along a path are measurements at the path's middle. What the moving itself costs is one more linear term, β·e
with e the *excitation* of the path (root-mean-square distance of its knots from the middle, in the chart) and β ~
N(0, `EXCITATION`²): a path that breaks the limit speaks against long paths first, and against its middle less.

A policy is safe when z ≥ κ·z_p. The *caution* κ ≥ 1 corrects a model that is too sure of itself: log κ grows by η·p
with every violation or crash and falls by η·(1 − p) with every other episode, so that in N episodes there are at most
(1 − p)·N + log(κ_N)/η violations, whatever the truth is (adaptive conformal inference, Gibbs and Candès 2021). Shapes:
n points, m policies, d parameters, T steps.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import ndtri

from abps.arrays import Array
from abps.critics.episodic import EpisodicLstd
from abps.data.objective import Objective
from abps.data.replay import Replay
from abps.model.ascent_prior import AscentPrior
from abps.model.gp import GP, Model, PriorMean
from abps.model.kernel import Hyper
from abps.model.neighbourhood import Neighbourhood
from abps.model.posterior import Features
from abps.policies.policy import PolicySpace
from abps.seeding import generator
from abps.settings import replace
from abps.tasks.constraints import Constraint
from abps.trajectory import Trajectory

__all__ = ["CRASH", "CostMemory", "CostProcess", "cost_rewards", "margin_unit"]

CRASH = 1.0
"""What a crash measures, in margins above the limit; measured costs are clipped there, so that one runaway does not
outweigh all others."""
GAUSSIAN_PROCESS = GP(
    lengthscale_low=0.03,
    lengthscale_high=1.0,
    shared_lengthscale=True,
    scale_by_dimension=False,
    noise="spread",
    noise_floor=0.1,
    hyper_priors=True,
    weigh_repeats=True,
)
"""As in the fast ABS, in the same chart, with shorter lengthscales; a tenth of a margin is noise at first."""
PRIOR = AscentPrior(critics=EpisodicLstd(), start_spread=0.0, path_spread=0.0)
"""A slope by critics. What starts and paths do to costs stays in the noise, because P is asked for any start."""
SMALLEST = 1e-9
"""Smallest margin, relative to the costs' size, and smallest spread of costs."""
LARGEST_EXPONENT = 20.0
CAUTION_RATE, MOST_CAUTION = 0.2, 3.0
"""η, and the largest κ: beyond it nothing would be safe anyhow."""
EXCITATION = 8.0
"""Prior standard deviation of what moving along a path costs, in margins per unit of the chart."""
ROWS = 256
"""Policies whose covariance is computed at once."""


@dataclass
class CostMemory:
    """What the process of a constraint remembers."""

    hyper: Hyper | None = None
    prior: Any = None
    """What the learner of the prior remembers, its critics included."""
    fits: int = 0
    caution: float = 1.0
    """κ"""


@dataclass
class CostProcess:
    """The process of one constraint; final."""

    constraint: Constraint
    space: PolicySpace
    seed: int
    _memory: CostMemory = field(default_factory=CostMemory)

    def __post_init__(self) -> None:
        self._learner = PRIOR.start(self.space, Objective(1.0), self.seed, lambda phase: nullcontext())

    @property
    def memory(self) -> CostMemory:
        """The hyper-parameters and what the critics remember."""
        self._memory.prior = self._learner.memory
        return self._memory

    @memory.setter
    def memory(self, memory: CostMemory) -> None:
        self._memory, self._learner.memory = memory, memory.prior

    def note(self, violations: int, others: int) -> None:
        """Count episodes of policies that were taken to be safe: κ follows."""
        p = self.constraint.probability
        change = CAUTION_RATE * (p * violations - (1.0 - p) * others)
        self._memory.caution = float(np.clip(self._memory.caution * np.exp(change), 1.0, MOST_CAUTION))

    @property
    def threshold(self) -> float:
        """κ·z_p: the z from which on a policy is safe."""
        return self._memory.caution * float(ndtri(self.constraint.probability))

    def learn(self, near: Neighbourhood, excitations: Array, column: int, episodes: Sequence[Trajectory]) -> None:
        """Fit the critics to the steps of recent episodes (at least one), then the process to episodes' costs.

        Args:
            near: the tried policies; their returns are costs above the limit.
            excitations: (n,) of the paths that they moved along; 0: at rest.
            column: which of the episodes' costs it is.
            episodes: recent ones.
        """
        spec, memory = self.space.spec, self._memory
        replay = Replay(sum(map(len, episodes)), spec.observation_dim, spec.action_dim)
        rewards = cost_rewards([item.costs[:, column] for item in episodes], self.constraint)
        for episode, given in zip(episodes, rewards, strict=True):
            replay.append(replace(episode, rewards=given))
        self._learner.new_centre(near, replay, memory.fits)
        rng = generator(self.seed, "constraint", self.constraint.name, memory.fits)
        found = GAUSSIAN_PROCESS.fit(near, self._mean(near, excitations), rng, memory.hyper).hyper
        least = max(1.0, -found.mean) / float(ndtri(self.constraint.probability))
        memory.hyper, memory.fits = replace(found, signal=max(found.signal, least)), memory.fits + 1

    def model(self, near: Neighbourhood, excitations: Array) -> Model:
        """The process at a neighbourhood, in margins above the limit; after `learn`."""
        if self._memory.hyper is None:
            raise RuntimeError("the process of a constraint is asked before it has learned")
        return GAUSSIAN_PROCESS.model(near, self._mean(near, excitations), self._memory.hyper)

    def score(self, model: Model, parameters: Array, excitation: float = 0.0) -> Array:
        """z (m,) of policies (m, d): Φ(z) is the probability that an episode stays within the limit.

        Args:
            model: what `model` returned.
            parameters: of the policies, or the middles of paths.
            excitation: of the paths; 0: at rest.
        """
        features, posterior = model.prior.features, model.posterior
        if features is None:
            raise RuntimeError("the prior of costs has features always")
        points = model.neighbourhood.coordinates.to_chart(parameters)
        values = (points - posterior.theta) @ features.gradient
        values[:, -1] = EXCITATION * excitation
        parts = [slice(first, first + ROWS) for first in range(0, len(points), ROWS)]
        return np.concatenate([_score(*posterior.joint(points[k], values[k]), posterior.hyper) for k in parts])

    def _mean(self, near: Neighbourhood, excitations: Array) -> PriorMean:
        """The critics' slope, and the cost of moving as a last feature."""
        prior = self._learner.mean(near)
        if prior.features is None:
            raise RuntimeError("the prior of costs has features always")
        values, gradient, weights = prior.features
        features = Features(
            np.column_stack([values, EXCITATION * excitations]),
            np.column_stack([gradient, np.zeros(len(gradient))]),
            np.append(weights, 0.0),
        )
        return prior._replace(features=features)


def _score(mean: Array, covariance: Array, hyper: Hyper) -> Array:
    return -mean / np.sqrt(np.maximum(np.diag(covariance), 0.0) + hyper.noise**2)


def margin_unit(costs: Array, limit: float) -> float:
    """u: how far the usual episode stays below the limit, or the spread of costs (n,) where that is larger."""
    size = max(abs(limit), float(np.abs(costs).max(initial=0.0)))
    least = SMALLEST * size if size > 0 else 1.0
    if not costs.size:
        return max(abs(limit), least)
    return max(limit - float(np.median(costs)), float(np.std(costs)), least)


def cost_rewards(costs: Sequence[Array], constraint: Constraint) -> list[Array]:
    """What the critics add up, one array (T,) per episode: the costs themselves, or for `max` a smooth maximum's.

    The largest cost of an episode is no sum of its steps. Its smooth form τ·log Σ_t exp(c_t/τ) has the gradient of
    Σ_t (τ/S)·exp(c_t/τ), S = Σ_t exp(c_t/τ): so critics of these rewards have its slope. τ is the spread of all steps'
    costs; S is that of the mean episode.
    """
    if constraint.reduce == "sum":
        return list(costs)
    together = np.concatenate(costs)
    spread, highest = float(np.std(together)), float(together.max())
    if spread <= SMALLEST * max(abs(highest), SMALLEST):
        return [np.zeros(len(item)) for item in costs]
    heights = [np.exp(np.maximum((item - highest) / spread, -LARGEST_EXPONENT)) for item in costs]
    return [spread * item / float(np.mean([part.sum() for part in heights])) for item in heights]
