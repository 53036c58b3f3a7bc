"""The data directory and the store of the store's tests."""

from tests.unit.store.conftest import data, root, store

__all__ = ["data", "root", "store"]
