"""Parquet files of rows that stand in many files: every value is encoded once, files gather encoded values.

`Copies` is what others use. Columns are taken apart into levels and values (`shredding`), packed as Parquet has them
(`leaves`), and put together for the rows of each file (`copies`) under its metadata (`metadata`, `thrift`).
"""

from bindery.store.pages.copies import Copies

__all__ = ["Copies"]
