"""Strategies: how a population of candidates is drawn, and what its values change."""

from abps.strategies.base import Strategy as Strategy

__all__ = ["Strategy"]
