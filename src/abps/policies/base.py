"""The contract of a policy class: how d parameters become a deterministic map from observations to actions.

Shapes: d parameters, n policies, m states, s observation size, a action size. A policy class sees *inputs*:
observations after the normaliser. It is a frozen dataclass of its own settings; sizes and action bounds come with the
task's spec.
"""

from abc import ABC, abstractmethod
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from abps.arrays import Array
from abps.normaliser import Normaliser
from abps.policies.layers import Layers
from abps.policies.path import ParameterPath
from abps.settings import Part
from abps.tasks.spec import TaskSpec

__all__ = ["Controller", "FastControl", "Layered", "PolicyClass", "PriorMetric", "ScaledInputs"]


class PolicyClass(Part, ABC):
    """Maps parameters and inputs to actions."""

    family: ClassVar[str] = "policy"
    acts_linearly: ClassVar[bool] = False
    """Whether actions are a squashed linear function of the inputs, for which closed-form critics are enough."""

    @abstractmethod
    def initial(self, spec: TaskSpec) -> Array:
        """The parameters (d,) that a search starts from."""

    @abstractmethod
    def actions(self, spec: TaskSpec, parameters: Array, inputs: Array) -> Array:
        """π(s) for m inputs, of one policy or of n: (d,) or (n, d), (m, s) → (m, a) or (n, m, a)."""

    @abstractmethod
    def pullback(self, spec: TaskSpec, parameters: Array, inputs: Array, cotangents: NDArray[np.floating]) -> Array:
        """Σ_m cotangent_m · ∂π(s_m)/∂parameters: (m, a) or (k, m, a) cotangents → (d,) or (k, d)."""

    @abstractmethod
    def metric(self, spec: TaskSpec, parameters: Array, inputs: Array, weights: Array) -> Array:
        """F = Σ_m w_m (∂π/∂parameters)ᵀ diag(1/half²) (∂π/∂parameters) / a, as b diagonal blocks (b, d/b, d/b).

        `weights` (m,) add up to one; half is half the range of each action. A class without structure returns one
        block.
        """

    @abstractmethod
    def to_arrays(self, spec: TaskSpec, parameters: Array) -> dict[str, Array]:
        """The parameters as named arrays, for files and exports. `weights` (…, s), if there, multiplies the inputs."""

    @abstractmethod
    def from_arrays(self, spec: TaskSpec, arrays: dict[str, Array]) -> Array:
        """The inverse of `to_arrays`: (d,).

        Raises:
            ShapeError: the arrays do not fit the task.
        """


class Controller(Protocol):
    """A function from one observation (s,) to one action (a,)."""

    def __call__(self, observation: NDArray[np.floating], /) -> Array: ...


@runtime_checkable
class FastControl(Protocol):
    """What a policy class may offer beside the contract: a control loop without the overhead of batches."""

    def controller(self, spec: TaskSpec, parameters: Array, normaliser: Normaliser) -> Controller:
        """A fast function from one raw observation (s,) to one action (a,)."""
        ...

    def path_controller(self, spec: TaskSpec, path: ParameterPath, normaliser: Normaliser) -> Controller:
        """The same for parameters that move along a path: it counts its calls, from the first step of an episode on."""
        ...


@runtime_checkable
class Layered(Protocol):
    """What a policy class may offer to be exported, to run on a robot, and to act fast: itself as layers."""

    def layers(self, spec: TaskSpec, parameters: Array) -> Layers:
        """The policy with these parameters as layers; weights and biases are affine functions of the parameters."""
        ...


@runtime_checkable
class PriorMetric(Protocol):
    """What a policy class may offer beside `metric`: how long parameters are before anything is known of the task.

    The chart adds a share of it to the metric, so that it bounds directions which the visited states do not show. The
    general way is the metric of the initial policy, which is of no use where that policy has a part without effect (the
    hidden layers of a network without output), or features that depend on each other.
    """

    def prior_metric(self, spec: TaskSpec, inputs: Array, weights: Array) -> Array:
        """Blocks as those of `metric`, over inputs whose coordinates are independent of each other."""
        ...


@runtime_checkable
class ScaledInputs(Protocol):
    """What a policy class may ask of a search: inputs of size one, whatever the units of the sensors are.

    A search whose observations are raw then takes mean and spread of its first episodes as normaliser, once and for
    all. The initial policy must act the same under every normaliser.
    """

    standardise: bool
    """Whether it asks for it."""
