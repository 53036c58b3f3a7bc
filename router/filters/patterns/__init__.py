"""Patterns of Amazon EventBridge and filter policies of Amazon SNS: filters that are JSON documents.

A pattern names members and lists what each may hold. Sources: the EventBridge user guide ("Event patterns", "Comparison
operators"), the Amazon SNS developer guide ("Subscription filter policies") and, where these leave room, the README and
the rules of aws/event-ruler, the library behind EventBridge. docs/filters/eventbridge.md and docs/filters/sns.md state
what is read here.

A pattern becomes a tree of the shared nodes. What it adds is `AnyElement` (`bindery.router.filters.patterns.nodes`):
whether any element of what stands under a name fits. Importing the package registers its readers and its nodes.
"""

from bindery.router.filters.patterns import access, evaluation, printing, reading, reasons, vectors

__all__ = ["access", "evaluation", "printing", "reading", "reasons", "vectors"]
