"""Maintenance: what keeps a data directory from growing with the number of its commits (docs/operations.md)."""

from store.maintenance.policy import Policy
from store.maintenance.run import Report, TableReport, maintain

__all__ = ["Policy", "Report", "TableReport", "maintain"]
