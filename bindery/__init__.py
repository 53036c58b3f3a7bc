"""Bindery: broker-style message routing on Spark, one Delta table per queue."""
