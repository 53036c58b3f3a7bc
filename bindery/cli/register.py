"""`bindery register`: queues as tables and flat views of a catalog, by statements."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from bindery.cli.options import DATA, DataOption, VhostOption
from bindery.router.error_text import counted, visible
from bindery.router.errors import InvalidInput, Refused
from bindery.router.model import DEFAULT_VHOST


def register(
    catalog: Annotated[str, typer.Option("--catalog", help="hive, unity, glue or duckdb.")],
    data: DataOption = DATA,
    schema: Annotated[
        str | None, typer.Option("--schema", help="Where it is registered: bindery, in unity main.bindery.")
    ] = None,
    vhost: VhostOption = DEFAULT_VHOST,
    location: Annotated[
        str | None,
        typer.Option("--location", help="Where the engine finds the data directory, if elsewhere than this command."),
    ] = None,
    prune: Annotated[bool, typer.Option("--prune", help="Drop queues that are not declared any more.")] = False,
    execute: Annotated[bool, typer.Option("--execute", help="Run the statements (duckdb).")] = False,
    database: Annotated[Path | None, typer.Option("--database", help="The database that --execute writes to.")] = None,
) -> None:
    """Print the statements that make queues tables and flat views of a catalog, with comments.

    Example: bindery register --catalog hive --data ./data | spark-sql -f /dev/stdin
    """
    # Imported here so that `bindery --help` does not wait for Delta.
    from bindery.analytics.catalog.statements import Registration  # noqa: PLC0415
    from bindery.store.paths import DataDir  # noqa: PLC0415

    if execute and catalog != "duckdb":
        raise InvalidInput(
            f"--execute is for duckdb; there is no client of {catalog} here",
            where="--execute",
            hint="pipe the statements into the engine's own client, such as spark-sql -f /dev/stdin",
        )
    if execute != (database is not None):
        raise InvalidInput(
            "--execute and --database belong together", where="--execute", hint="--execute --database catalog.duckdb"
        )
    directory = DataDir.open(data)
    if database is not None and database.resolve().is_relative_to(Path(directory.root).resolve()):
        raise Refused(
            "a database is not written into the data directory", where=str(database), hint="choose another file"
        )
    registration = Registration(catalog, vhost, schema=schema, location=location, prune=prune)
    # all of them before any is shown: half a list would look like a whole one
    statements = list(registration.statements(directory, notice=_say))
    if database is not None:
        _execute(statements, database)
        typer.echo(f"{counted(len(statements), 'statement')} executed in {visible(str(database))}")
        return
    for statement in statements:
        typer.echo(f"{statement};\n")


def _execute(statements: Sequence[str], database: Path) -> None:
    """Run all statements, or none. Raises InvalidInput without DuckDB, and for what DuckDB says."""
    try:
        import duckdb  # noqa: PLC0415  # an extra, and not needed for anything else
    except ImportError:
        raise InvalidInput(
            "this needs DuckDB and it is not installed", where="duckdb", hint="pip install 'bindery[sql]'"
        ) from None
    try:
        with duckdb.connect(str(database)) as connection:
            connection.execute("BEGIN TRANSACTION")
            for statement in statements:
                connection.execute(statement)
            connection.execute("COMMIT")
    except duckdb.Error as error:
        raise InvalidInput(
            str(error).strip().partition("\n")[0],
            where=str(database),
            hint="DuckDB reads Delta by an extension: it is fetched at first use, or by `INSTALL delta`",
        ) from None


def _say(text: str) -> None:
    typer.echo(f"note: {visible(text)}", err=True)
