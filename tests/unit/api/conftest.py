"""The data directory of the store's tests, on each kind of place."""

from tests.unit.store.conftest import data, root

__all__ = ["data", "root"]
