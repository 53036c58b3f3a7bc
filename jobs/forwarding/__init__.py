"""Forwarding: the rows of a queue delivered to a topic of another broker. No Spark."""
