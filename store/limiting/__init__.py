"""Limits of queues, kept by maintenance: which rows go (`judging`), and how they go (`enforcing`)."""

from bindery.store.limiting.enforcing import LimitsReport, deleted, keep_limits
from bindery.store.limiting.judging import Reason

__all__ = ["LimitsReport", "Reason", "deleted", "keep_limits"]
