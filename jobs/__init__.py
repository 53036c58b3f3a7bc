"""Spark jobs: session, sources and the streaming job that routes into queue tables."""
