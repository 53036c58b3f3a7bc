"""Transformations on bindings and diverts: what they change in the copy of a message that goes over them.

parse(text) -> Transformation           the statements, or FilterError with the place and a hint
apply(transformation, message)          the changed message: the reference, one message at a time
"""

from __future__ import annotations

from bindery.router.transforms.applying import Applied, apply, content_of
from bindery.router.transforms.reading import SERVICE_BUS_PREFIX, parse
from bindery.router.transforms.statements import Remove, Rename, Set, Statement, Target, Transformation
from bindery.router.transforms.writing import of_rule_action, setting_texts

__all__ = [
    "SERVICE_BUS_PREFIX",
    "Applied",
    "Remove",
    "Rename",
    "Set",
    "Statement",
    "Target",
    "Transformation",
    "apply",
    "content_of",
    "of_rule_action",
    "parse",
    "setting_texts",
]
