"""Copies of data directories."""
