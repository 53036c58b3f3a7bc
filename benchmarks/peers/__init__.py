"""Bindery beside other ways to route the same messages by the same topology: brokers, Spark writes, SQL engines."""
