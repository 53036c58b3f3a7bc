"""Shadowing: the traffic of a running RabbitMQ routed here too, and compared with where the broker put it. No Spark."""
