"""Maintenance: what keeps a data directory from growing with the number of its commits (docs/operations.md)."""

from store.maintenance.policy import Policy
from store.maintenance.run import Report, TableReport, maintain
from store.maintenance.upkeep import Upkeep

__all__ = ["Policy", "Report", "TableReport", "Upkeep", "maintain"]
