"""`bindery schemas`: schemas of bodies, from a registry into a topology."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bindery.cli.options import DATA, DataOption, VhostOption
from bindery.cli.registry import PASSWORD_VARIABLE, USER_VARIABLE, Registry
from bindery.router.errors import InvalidInput
from bindery.router.model import DEFAULT_VHOST

if TYPE_CHECKING:
    from bindery.router.model import Exchange, Queue

app = typer.Typer(help="Schemas of bodies, from a registry into a topology.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Schemas of bodies, from a registry into a topology."""


@app.command()
def pull(
    registry: Annotated[
        str,
        typer.Option(
            "--registry",
            metavar="URL",
            help=f"A schema registry with Confluent's REST API; its user by {USER_VARIABLE} and {PASSWORD_VARIABLE}.",
        ),
    ],
    subject: Annotated[
        list[str], typer.Option("--subject", help="A subject, all of whose versions are taken; may be repeated.")
    ],
    exchange: Annotated[str | None, typer.Option("--exchange", help="The exchange that they are for.")] = None,
    queue: Annotated[str | None, typer.Option("--queue", help="The queue that they are for.")] = None,
    vhost: VhostOption = DEFAULT_VHOST,
    data: DataOption = DATA,
) -> None:
    """Read the schemas of a registry; print the document that declares them.

    With --exchange or --queue it is the whole declaration, as it is in the data directory with these schemas beside
    those that it has, for `bindery apply`. Without, it is the two arguments. Nothing is changed.

    Example: bindery schemas pull --registry https://registry:8081 --subject flights-value

    Example: bindery schemas pull --registry https://registry:8081 --subject flights-value --exchange flights |
    bindery apply -
    """
    from bindery.router.filters.schemas import read_schema  # noqa: PLC0415  # `bindery --help` does not wait for it

    if exchange is not None and queue is not None:
        raise InvalidInput("schemas are for an exchange or for a queue", where="--queue", hint="pull them twice")
    holder = _holder(data, vhost, exchange, queue)
    format, schemas = _pulled(Registry(registry), subject)
    stated = {} if holder is None else _stated(holder, format)
    arguments = {"x-payload": format, "x-payload-schema": {"registry": {**stated, **schemas}}}
    try:
        read_schema(format, arguments["x-payload-schema"])
    except InvalidInput as error:
        error.where = f"x-payload-schema{error.where or ''}"
        raise
    document = arguments if holder is None else _declared(holder, arguments)
    typer.echo(json.dumps(document, ensure_ascii=False, indent=2))


def _pulled(registry: Registry, subjects: list[str]) -> tuple[str, dict[str, Any]]:
    """The format of the subjects, which is one, and their schemas by ids."""
    from bindery.cli.registered_schemas import standing_alone  # noqa: PLC0415

    if registry.is_open:
        typer.echo(f"warning: the password goes to {registry.name} unencrypted", err=True)
    found: dict[str, Any] = {}
    formats: set[str] = set()
    for subject in subjects:
        for one in registry.versions(subject):
            formats.add(one.format)
            if len(formats) > 1:
                raise InvalidInput("the versions are avro and protobuf; bodies are one of them", where="--subject")
            try:
                found[str(one.id)] = standing_alone(one)
            except InvalidInput as error:
                error.message = f"schema {one.id} of {subject!r}: {error.message}"
                raise
    if not found:
        raise InvalidInput("the subjects have no versions", where="--subject")
    return formats.pop(), dict(sorted(found.items(), key=lambda item: int(item[0])))


def _holder(data: str, vhost: str, exchange: str | None, queue: str | None) -> Exchange | Queue | None:
    """The exchange or queue as it is declared; raises NotFound."""
    from bindery.store.paths import DataDir  # noqa: PLC0415  # storage, only when it is asked for
    from bindery.store.topology import TopologyStore  # noqa: PLC0415

    if exchange is None and queue is None:
        return None
    topology = TopologyStore(DataDir.open(data)).load()
    return topology.queue(vhost, str(queue)) if exchange is None else topology.exchange(vhost, exchange)


def _stated(holder: Exchange | Queue, format: str) -> dict[str, Any]:
    """The schemas that an exchange or queue has by ids, which stay: bodies of theirs may still come."""
    from bindery.router.arguments import encode_arguments  # noqa: PLC0415

    arguments = encode_arguments(holder.arguments)
    present, schema = arguments.get("x-payload"), arguments.get("x-payload-schema")
    if present is None:
        return {}
    if present != format or not isinstance(schema, dict) or [*schema] != ["registry"]:
        raise InvalidInput(
            f"{holder.name!r} reads bodies as {present}{'' if present != format else ' of one schema'}, not by ids",
            where="x-payload",
            hint="declare another exchange or queue for bodies that name a schema of the registry",
        )
    known: dict[str, Any] = schema["registry"]
    return known


def _declared(holder: Exchange | Queue, arguments: dict[str, Any]) -> dict[str, Any]:
    """The document that declares an exchange or queue with other arguments."""
    from dataclasses import replace  # noqa: PLC0415

    from bindery.router.arguments import decode_arguments, encode_arguments  # noqa: PLC0415
    from bindery.router.definitions import export  # noqa: PLC0415
    from bindery.router.model import Exchange, Topology, Vhost  # noqa: PLC0415

    whole = replace(holder, arguments=decode_arguments(encode_arguments(holder.arguments) | arguments))
    section = "exchanges" if isinstance(whole, Exchange) else "queues"
    return {section: export(Topology.of([Vhost(whole.vhost), whole]))[section]}
