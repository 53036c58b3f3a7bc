"""Limits of queues, kept by maintenance: which rows go (`judging`), and how they go (`enforcing`)."""

from bindery.store.limiting.enforcing import LimitsReport, finish_dead_letters, keep_limits

__all__ = ["LimitsReport", "finish_dead_letters", "keep_limits"]
