"""Parquet files of rows that stand in many files: every value is encoded once, files gather encoded values.

`Copies` is what others use, and `repeating`, which says where values are few. Columns are taken apart into levels and
values (`shredding`), packed as Parquet has them (`leaves`), and put together for the rows of each file (`copies`) under
its metadata (`metadata`, `thrift`).
"""

from bindery.store.pages.copies import Copies
from bindery.store.pages.leaves import repeating

__all__ = ["Copies", "repeating"]
