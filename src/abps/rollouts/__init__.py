"""Rollouts: one episode in plain numpy, and a pool of processes that run many."""

from abps.rollouts.episode import attempt_episode as attempt_episode
from abps.rollouts.episode import run_episode as run_episode
