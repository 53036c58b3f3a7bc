"""Draining: the traffic of a RabbitMQ's queue or stream into the inbox of a vhost. No Spark."""
