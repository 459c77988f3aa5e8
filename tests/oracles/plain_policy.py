"""A policy class by the contract alone: whatever else another class offers is hidden."""

from abps.policies import PolicyClass


class ByContract(PolicyClass):
    """The six methods of another class."""

    def __init__(self, inner):
        self.inner = inner

    def initial(self, spec):
        return self.inner.initial(spec)

    def actions(self, spec, parameters, inputs):
        return self.inner.actions(spec, parameters, inputs)

    def pullback(self, spec, parameters, inputs, cotangents):
        return self.inner.pullback(spec, parameters, inputs, cotangents)

    def metric(self, spec, parameters, inputs, weights):
        return self.inner.metric(spec, parameters, inputs, weights)

    def to_arrays(self, spec, parameters):
        return self.inner.to_arrays(spec, parameters)

    def from_arrays(self, spec, arrays):
        return self.inner.from_arrays(spec, arrays)
