"""Schedules of operations and faults over every committer, checked against a model of what must be there."""
