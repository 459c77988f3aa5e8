"""Runs: one search on one task, with its files, processes and clock."""
