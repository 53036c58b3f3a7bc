"""What would bring a message to a queue: the smallest changes of the topology, and of the message itself.

    found = suggest(topology, "/", message, "late", clock_ms=0)
    found.changes[0].says, found.changes[0].change    # a document as `bindery apply` takes it

Every suggestion was tried: the change was applied as a document, the message was routed by the engine, and it came
to the queue, and to every queue that it reached before but for those to which an alternate alone led it. What stops
the message is asked of explain, one cause after the other, so that a way on which several things fail is mended step
by step.
"""

from __future__ import annotations

from bindery.router.suggestions.search import SuggestedChange, SuggestedMessage, Suggestions, suggest

__all__ = ["SuggestedChange", "SuggestedMessage", "Suggestions", "suggest"]
