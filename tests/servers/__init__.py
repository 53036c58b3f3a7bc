"""Servers that tests start for themselves, on loopback, and proxies that make them fail."""
