"""`bindery rule`: what a rule of lint finds, why, and what to do."""

from __future__ import annotations

import difflib
import json
from typing import Annotated, Any

import typer

from bindery.cli.options import JsonOption
from bindery.router.errors import InvalidInput
from bindery.router.spelling import did_you_mean


def rule(
    code: Annotated[str | None, typer.Argument(help="A code, such as BT101; all rules are listed without it.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Print the page of a rule of lint: what it finds and why, an example, and what to do.

    Example: bindery rule BT101
    """
    # Imported here so that `bindery --help` waits for neither linter; each registers its rules.
    from bindery.router import analysis  # noqa: F401, PLC0415
    from bindery.router.filters import lint  # noqa: F401, PLC0415
    from bindery.router.lint import RULES, Rule  # noqa: PLC0415

    def data(one: Rule) -> dict[str, Any]:
        stated = {"code": one.code, "title": one.title, "severity": one.severity, "explanation": one.explanation}
        return stated | {"page": one.page(), "documentation": one.anchor}

    if code is None:
        if as_json:
            typer.echo(json.dumps([data(one) for one in RULES.values()], ensure_ascii=False))
        else:
            for one in RULES.values():
                typer.echo(f"{one.code}  {one.severity:7}  {one.title}")
        return
    found = RULES.get(code.upper())
    if found is None:
        close = difflib.get_close_matches(code.upper(), RULES, 3)
        raise InvalidInput(
            f"no rule {code!r}",
            where="rule",
            hint=did_you_mean(", ".join(close) or None, "`bindery rule` lists the rules", quoted=False),
        )
    if as_json:
        typer.echo(json.dumps(data(found), ensure_ascii=False))
    else:
        typer.echo("\n\n".join([f"{found.code} {found.title} ({found.severity})", *found.page(), found.anchor]))
