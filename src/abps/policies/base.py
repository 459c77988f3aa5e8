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
from abps.policies.path import ParameterPath
from abps.settings import Part
from abps.tasks.spec import TaskSpec

__all__ = ["Controller", "FastControl", "LinearForm", "PolicyClass"]


class PolicyClass(Part, ABC):
    """Maps parameters and inputs to actions."""

    family: ClassVar[str] = "policy"

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
class LinearForm(Protocol):
    """What a policy class may offer to be exported as C and ONNX: z = W·input + bias, then a squashing function."""

    squash: ClassVar[str]
    """"tanh" or "clip"."""
