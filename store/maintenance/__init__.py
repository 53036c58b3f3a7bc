"""Maintenance: what keeps a data directory from growing with the number of its commits (docs/operations.md)."""

from bindery.store.maintenance.policy import Policy
from bindery.store.maintenance.run import Report, TableReport, maintain
from bindery.store.maintenance.upkeep import Upkeep

__all__ = ["Policy", "Report", "TableReport", "Upkeep", "maintain"]
