"""The step of the fast ABS: along the critics' direction, with a length that follows the agreement of successive
directions.

The length grows while successive directions agree and shrinks when they turn (as CMA-ES adapts its step; the noise of
single returns hardly touches it). Returns decide two things only, through the posterior of J over all recent policies:

- **jump**: a probe farther along the last step is probably better than the centre: it becomes the centre;
- **retreat**: one of the last centres is probably better than this one (almost surely, with many parameters): go back
  there, with a shorter length. The next probe then runs that policy, if it has only been seen along paths (or has many
  parameters, so that its own luck does not hold the search for long); else it looks elsewhere, in a random direction,
  as the critics' own had led nowhere. It may be jumped to like a probe ahead, which gets searches off plateaus. A
  length that going back has worn down to `shortest` starts anew at `first_length`.

After either, the critics are fitted at the new centre and the rule is asked again. Shapes: d parameters, all in the
chart.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from abps.arrays import Array
from abps.model.neighbourhood import Neighbourhood
from abps.settings import require, setting
from abps.steps.base import Move, StepInput, StepRule

__all__ = ["AdaptiveAscent", "AdaptiveMemory"]


@dataclass
class AdaptiveMemory:
    """What the rule remembers: lengths in the chart, vectors in parameters."""

    length: float = 0.0
    """Of the next step; 0 before the first."""
    last: Array | None = None
    """The last step (d,) in parameters."""
    looked_ahead: bool = False
    """Whether the probe ahead, if there is one, is still to be judged."""
    retreated: bool = False
    """Whether this outer iteration has gone back already."""
    believed: Array | None = None
    """Parameters (d,) of the policy that was believed to be the best."""


@dataclass(frozen=True)
class AdaptiveAscent(StepRule):
    """Along the prior mean's slope; length by agreement, jump and retreat by the posterior."""

    first_length: float = setting(0.2, "length of the first step: change of the actions in halves of their ranges")
    shortest: float = setting(0.03, "lower bound of the length; going back that makes it shorter starts anew")
    longest: float = setting(1.0, "upper bound of the length", common=True)
    rate: float = setting(0.5, "the length is multiplied by exp(rate·(cosine of successive directions − target))")
    target: float = setting(0.2, "cosine of successive directions at which the length stays")
    doubt: float = setting(0.8, "go back when an earlier centre is better with more than this probability")
    doubt_many: float = setting(
        0.95, "the same with more than `few_parameters`, where going back only costs: nothing is looked at elsewhere"
    )
    shrink: float = setting(0.7, "factor of the length when going back")
    candidates: int = setting(12, "newest policies among which, and the best so far, the best is looked for")
    jump: float = setting(2.5, "a probe looks ahead at so many times the last step; 0: none")
    jump_probability: float = setting(0.5, "the probe ahead becomes the centre when it is better with this probability")

    repeats: int = setting(1, "a policy gone back to is run at rest so often before a probe looks elsewhere")
    elsewhere_low: float = setting(0.2, "such a probe looks at least so far: change of the actions")
    elsewhere_high: float = setting(1.0, "and at most so far")
    few_parameters: int = setting(
        40, "parameters up to which probes look elsewhere and `doubt` holds; with more, such probes show too little"
    )

    memory_type: ClassVar[type] = AdaptiveMemory

    def __post_init__(self) -> None:
        require(0 < self.shortest <= self.first_length <= self.longest, "need 0 < shortest <= first_length <= longest")
        require(0.5 <= self.doubt < 1 and 0.5 <= self.doubt_many < 1, "doubt and doubt_many must be in [0.5, 1)")
        require(0 < self.shrink <= 1, "shrink must be in (0, 1]")
        require(self.candidates >= 1 and self.rate >= 0, "need candidates >= 1 and rate >= 0")
        require(self.repeats >= 0, "repeats must not be negative")
        require(0 < self.elsewhere_low <= self.elsewhere_high, "need 0 < elsewhere_low <= elsewhere_high")
        require(self.jump == 0 or self.jump > 1, "jump must be 0 or more than 1")

    def __call__(self, given: StepInput) -> Move:
        near = given.model.neighbourhood
        memory: AdaptiveMemory = given.memory
        memory = replace(memory, length=memory.length or self.first_length)
        if memory.looked_ahead and memory.last is not None:
            memory = replace(memory, looked_ahead=False)
            move = self._jump(given, memory)
            if move is not None:
                return move
        known = self._known_policies(near, memory.believed)
        mean, better = given.model.better(near.coordinates.to_chart(known))
        best = int(np.argmax(mean))
        doubt = self.doubt if len(near.theta) <= self.few_parameters else self.doubt_many
        if better[best] > doubt and not memory.retreated:
            length = memory.length * self.shrink
            length = length if length > self.shortest else self.first_length
            memory = replace(memory, last=None, length=length, retreated=True)
            return Move(near.theta, {"retreat": "worse"}, memory, go_to=known[best])
        return self._step(given, memory, known[best])

    def _jump(self, given: StepInput, memory: AdaptiveMemory) -> Move | None:
        near = given.model.neighbourhood
        probes = [k for k, point in enumerate(near.entries) if point.role == "probe"]
        if not probes or float(given.model.better(near.points[probes[-1:]])[1][0]) <= self.jump_probability:
            return None
        ahead = near.parameters[probes[-1]]
        length = min(memory.length * np.sqrt(self.jump), self.longest)
        memory = replace(memory, last=ahead - near.centre.parameters, length=float(length))
        return Move(near.theta, {"jump": True}, memory, go_to=ahead)

    def _step(self, given: StepInput, memory: AdaptiveMemory, believed: Array) -> Move:
        near = given.model.neighbourhood
        theta, chart = near.theta, near.coordinates
        target = given.model.prior.target
        if target is not None:
            memory = AdaptiveMemory(memory.length, believed=believed)
            return Move(target, {"step_chart": float(np.linalg.norm(target - theta))}, memory, believed=believed)
        direction = given.model.prior.slope()
        norm = float(np.linalg.norm(direction))
        if norm == 0.0 or not np.isfinite(norm):
            return Move(theta, {"step_agreement": None}, replace(memory, last=None, retreated=False), believed=believed)
        here = near.centre.parameters
        direction, agreement, length = direction / norm, None, memory.length
        if memory.last is not None:
            before = chart.to_chart(here + memory.last) - theta
            agreement = float(before @ direction) / max(float(np.linalg.norm(before)), 1e-300)
            factor = np.exp(self.rate * (agreement - self.target))
            length = float(np.clip(length * factor, self.shortest, self.longest))
        centre = theta + length * direction
        step = chart.to_parameters(centre) - here
        ahead = chart.to_parameters(centre) + (self.jump - 1.0) * step if self.jump > 0 else None
        looks_ahead = ahead is not None
        if memory.retreated:
            ahead = self._elsewhere(near, given.rng)
            ahead, looks_ahead = (here, False) if ahead is None else (ahead, True)
        memory = AdaptiveMemory(length, step, looks_ahead, believed=believed)
        metrics = {"step_agreement": agreement, "step_chart": length}
        return Move(centre, metrics, memory, believed=believed, ahead=ahead)

    def _elsewhere(self, near: Neighbourhood, rng: np.random.Generator | None) -> Array | None:
        """Parameters (d,) in a random direction of the chart, at a random distance; None: run the centre first."""
        if (
            rng is None
            or len(near.theta) > self.few_parameters
            or _runs_at_rest(near, near.centre.parameters) < self.repeats
        ):
            return None
        direction = rng.standard_normal(len(near.theta))
        distance = np.exp(rng.uniform(np.log(self.elsewhere_low), np.log(self.elsewhere_high)))
        return near.coordinates.to_parameters(near.theta + distance * direction / np.linalg.norm(direction))

    def _known_policies(self, near: Neighbourhood, believed: Array | None) -> Array:
        """Parameters (m, d) of policies that were run, each once: the centre, the newest, the one believed best before.

        With few parameters these are the centres, those seen along a path alone among them. With many, where a path can
        return far less than its centre or more, only policies that were run at rest count, probes too.
        """
        few = len(near.theta) <= self.few_parameters
        left_out = "probe" if few else "path"
        found: dict[bytes, Array] = {near.centre.parameters.tobytes(): near.centre.parameters}
        for place in range(len(near.entries) - 1, -1, -1):
            if near.entries[place].role != left_out and len(found) <= self.candidates:
                found.setdefault(near.parameters[place].tobytes(), near.parameters[place])
        if believed is not None and any(np.array_equal(believed, known) for known in near.parameters):
            found.setdefault(believed.tobytes(), believed)
        return np.array(list(found.values()))


def _runs_at_rest(near: Neighbourhood, parameters: Array) -> int:
    """How many episodes of a policy (d,) the window has, those along paths around it left out."""
    same = (near.parameters == parameters).all(axis=1)
    return sum(len(p.returns) for p, alike in zip(near.entries, same, strict=True) if alike and p.role != "path")
