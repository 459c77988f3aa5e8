"""Tuning: which settings of a search suit a task, found by Optuna over short training runs."""
