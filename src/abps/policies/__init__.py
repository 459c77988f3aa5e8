"""Deterministic policies: classes of them (`base`, `linear`), one of them (`policy`), and what they see
(`observations`)."""

from abps.policies.base import PolicyClass as PolicyClass
from abps.policies.policy import Policy as Policy
from abps.policies.policy import PolicySpace as PolicySpace
from abps.policies.policy import load_policy as load_policy

__all__ = ["Policy", "PolicyClass", "PolicySpace", "load_policy"]
