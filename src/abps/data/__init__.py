"""Stored experience."""

from abps.data.replay import Replay as Replay
from abps.data.replay import Transitions as Transitions

__all__ = ["Replay", "Transitions"]
