"""Queues for analysts: consistent read points, typed columns of headers, SQL by DuckDB, data frames."""
