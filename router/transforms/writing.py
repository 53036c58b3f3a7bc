"""Texts of transformations, made of what other brokers state."""

from __future__ import annotations

from collections.abc import Mapping

from bindery.router.transforms.reading import SERVICE_BUS_PREFIX, parse


def setting_texts(values: Mapping[str, str]) -> str:
    """The transformation that gives application properties these texts. Raises FilterError where none can say it."""
    text = "; ".join(f"SET a.[{_doubled(name, '[]')}] = '{_doubled(value)}'" for name, value in values.items())
    return parse(text).text


def of_rule_action(action: str, *, rule: str | None = None) -> str:
    """The transformation that a rule action of Azure Service Bus is; with `rule`, its name is set as `RuleName`.

    Raises FilterError, with the place in the text of the transformation.
    """
    text = SERVICE_BUS_PREFIX + action
    return parse(text if rule is None else f"{text.rstrip(' ;')}; SET RuleName = '{_doubled(rule)}'").text


def _doubled(text: str, marks: str = "'") -> str:
    for mark in marks:
        text = text.replace(mark, 2 * mark)
    return text
