"""Queues in catalogs: tables and flat views with comments, as statements of the engine behind each."""
