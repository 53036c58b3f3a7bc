"""Blocks that are no commands: each is read by the part of Bindery that it is written for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import duckdb
import yaml
from confluent_kafka import Producer

import bindery
from bindery.cli.forward import _settings
from bindery.jobs.control.config import parse_job
from bindery.jobs.control.document_rules import DocumentRules
from bindery.jobs.control.forward import check_options, submitted
from bindery.router.documents import read_source
from bindery.router.filters import lint, parse
from bindery.router.filters.sets import parse_filter_set
from bindery.router.proposal import read_change
from bindery.store.access import AccessStore
from bindery.store.paths import DataDir
from tests.documents import Block, arguments
from tests.documents import bindery as run
from tests.pages.before import PASSWORD
from tests.unit.analytics.test_catalog import scannable


def definitions(block: Block) -> None:
    """A document of `bindery apply`."""
    read_change([read_source(block.name, block.text.encode())], "/")


def job(block: Block) -> None:
    """A job file."""
    parse_job(block.text)


def part_of_job(block: Block) -> None:
    """Keys of a job, or of its source."""
    given = yaml.safe_load(textwrap.dedent(block.text))
    source = {"format": "kafka", "bootstrap_servers": "kafka:9092", "topics": ["orders"]}
    whole = {"stream": "orders", "source": source, **({} if "options" in given else given)}
    source.update(given if "options" in given else {})
    parse_job(yaml.safe_dump(whole))


def filter_set(block: Block) -> None:
    parse_filter_set(json.loads(block.text))


def artemis(block: Block) -> None:
    parse(block.text.strip(), "artemis")


def linted(block: Block) -> None:
    """What a rule of lint finds, or what should stand instead."""
    rule = lint.RULES[block.section.split(" ")[0]]
    assert block.text.strip() in {one[1] for one in (rule.example, rule.instead) if one}


def query(block: Block) -> None:
    """SQL of Spark over tables of the data directory."""
    bindery.spark().sql(block.text.replace("`data/", f"`{Path.cwd()}/data/")).collect()


def submitted_job(block: Block) -> None:
    """A call that submits a job: its document is one that a service takes which allows /srv."""
    words = arguments(block.text) or []
    document = json.loads(words[words.index("--json") + 1])
    DocumentRules(DataDir.open("data"), ("/srv",)).check(document)


def administrator(block: Block) -> None:
    """A program that asks for a password."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    subprocess.run(["bash", "-c", block.text], input=PASSWORD, text=True, env={**os.environ, "PATH": path}, check=True)
    users = AccessStore(DataDir.open("data").access).load().users
    assert users["admin"].tags == ("administrator",)


def forwarder(block: Block) -> None:
    """A document of a job that forwards."""
    submitted(json.loads(block.text), ["kafka://kafka:9092"])


def kafka_client(block: Block) -> None:
    """Settings of `bindery forward --config`: librdkafka knows each of them."""
    Path("kafka.yaml").write_text(block.text)
    settings = _settings(Path("kafka.yaml"))
    check_options(settings)
    del settings["ssl.ca.location"]  # a file that is read at once
    settings["sasl.password"] = "p"
    Producer(settings)


def registered(block: Block) -> None:
    """A query over what `bindery register` has made, in the engine of the section."""
    if block.section == "Spark SQL":
        found = _by_spark(block.text)
        with duckdb.connect("catalog.duckdb") as connection:
            scannable(connection, DataDir.open("data"))  # for DuckDB, whose extension for Delta is not everywhere
    else:
        with duckdb.connect("catalog.duckdb") as connection:
            found = connection.sql(block.text).fetchall()
    assert found == [("AA", 61), ("UA", 75)]


def _by_spark(query: str) -> list[tuple[object, ...]]:
    spark = bindery.spark()
    code, said = run(["bindery", "register", "--catalog", "hive", "--data", "data"])
    assert code == 0, said
    try:
        for statement in said.split(";\n\n"):
            if statement.strip(";\n "):
                spark.sql(statement.rstrip(";\n "))
        return [tuple(row) for row in spark.sql(query).collect()]
    finally:
        spark.sql("DROP SCHEMA IF EXISTS bindery CASCADE")


_OF_PAGES: Final[dict[tuple[str, str], Callable[[Block], None]]] = {
    ("docs/drain.md", "yaml"): job,
    ("docs/filter-sets.md", "json"): filter_set,
    ("docs/filter-sets.md", ""): artemis,
    ("docs/filters/service-bus.md", "json"): filter_set,
    ("docs/forward.md", "json"): forwarder,
    ("docs/forward.md", "yaml"): kafka_client,
    ("docs/lint.md", "sql"): linted,
    ("docs/lint.md", "json"): linted,
    ("docs/storage.md", "sql"): query,
    ("docs/tables.md", "sql"): registered,
}
#: The same of single blocks, by their first line.
_OF_BLOCKS: Final[dict[str, Callable[[Block], None]]] = {
    'curl -u "admin:$BINDERY_ADMIN_PASSWORD" http://127.0.0.1:15672/api/jobs --json \'{': submitted_job,
    "python -c 'import getpass, sys": administrator,
}
_RUN: Final = {"console", "sh", "bash", "python"}


def _names(block: Block, file: str) -> bool:
    """Whether a command reads a file, or a job reads it or the folder in which it lies."""
    where = file.rpartition("/")[0] or file
    return (block.kind in _RUN and file in block.text) or f"path: {where}\n" in block.text


def reader_of(block: Block, page: list[Block]) -> Callable[[Block], None] | None:
    """What reads a block; None for one that is run, or whose file a command of the page reads.

    Raises AssertionError for a block of which nobody knows what it is.
    """
    reads = _OF_BLOCKS.get(block.title) or _OF_PAGES.get((block.page, block.kind))
    if reads is not None:
        return reads
    if block.kind in _RUN or (block.name and any(_names(one, block.name) for one in page)):
        return None
    if block.kind in ("yaml", "json"):
        given: Any = yaml.safe_load(textwrap.dedent(block.text))
        if isinstance(given, dict):
            if "stream" in given:
                return job
            if given.keys() & {"message", "options", "dedup"}:
                return part_of_job
            if given.keys() & {"exchanges", "queues", "bindings", "delete"}:
                return definitions
    raise AssertionError(f"{block.page}:{block.line}: run by nothing and not left out: {block.title}")
