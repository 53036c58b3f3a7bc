"""Copies of data directories at one point, made while jobs and the control plane go on."""

from bindery.store.copying.run import Copy, copy_data

__all__ = ["Copy", "copy_data"]
