"""Recording what a live RabbitMQ does with random messages, as conformance cases: `python -m tests.recording`."""
