"""Limits of queues, kept by maintenance: which rows go (`judging`), how they go (`enforcing`), and queues that expire
(`expiring`).
"""

from bindery.store.limiting.enforcing import LimitsReport, finish_dead_letters, keep_limits, take_in

__all__ = ["LimitsReport", "finish_dead_letters", "keep_limits", "take_in"]
