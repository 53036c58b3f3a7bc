"""Every block of every page is run as printed, or stands in `left_out.py` with the reason."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final
from unittest.mock import patch

import pytest

from tests.documents import ROOT, Block, Reader, arguments, blocks, check_options, pages, working_folder
from tests.pages.before import BEFORE
from tests.pages.left_out import LEFT_OUT
from tests.pages.readers import reader_of

#: Pages whose commands or examples need the Spark session.
SPARK: Final = {
    "README.md",
    "docs/canary.md",
    "docs/how-to/change-safely.md",
    "docs/how-to/read-tables.md",
    "docs/jobs.md",
    "docs/migration/rabbitmq-walk.md",
    "docs/python.md",
    "docs/replay.md",
    "docs/storage.md",
    "docs/tables.md",
}
#: Pages with commands whose output has numbers of more than the page.
MEASURED: Final = {
    "docs/migration/rabbitmq-walk.md": (
        'bindery shadow --rabbitmq "$BROKER" --management "$BROKER_API" --password env:BROKER_PASSWORD --messages 300',
    ),
    "docs/operations.md": ("bindery copy data backup", "bindery maintain --data data"),
}


def marked(page: str) -> object:
    return pytest.param(page, marks=[pytest.mark.spark] if page in SPARK else [], id=page)


@pytest.mark.parametrize("page", [marked(page) for page in pages()])
def test_a_page_does_what_it_shows(page: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if page in SPARK:
        request.getfixturevalue("spark")
    found, left_out = blocks(page), LEFT_OUT.get(page, {})
    with patch.dict(os.environ), working_folder(tmp_path):
        for name in [name for name in os.environ if name.startswith("BINDERY_")]:
            del os.environ[name]
        os.environ["BINDERY_CACHE"] = str(tmp_path / "cache")
        reader = Reader(left_out, MEASURED.get(page, ()))
        try:
            prepare(reader, page, "")
            for block in found:
                if block.title not in left_out:
                    run(reader, block, found)
        finally:
            reader.close()


def prepare(reader: Reader, page: str, file: str) -> None:
    if (page, file) in BEFORE:
        BEFORE[page, file](reader)


def run(reader: Reader, block: Block, page: list[Block]) -> None:
    __tracebackhide__ = True
    reads = reader_of(block, page)
    try:
        if block.name or reads is None:
            reader.run(block)
        if reads is not None:
            reads(block)
    except AssertionError as error:
        raise AssertionError(f"{block.page}:{block.line} ({block.title}): {error}") from error
    if block.name:
        prepare(reader, block.page, block.name)


@pytest.mark.parametrize("page", pages())
def test_commands_that_are_left_out_have_options_that_there_are(page: str) -> None:
    for block in blocks(page):
        for command, _ in block.commands() if block.kind in ("console", "sh", "bash") else ():
            words = arguments(command) if command.startswith("bindery ") else None
            if words:
                check_options(words)


@pytest.mark.parametrize("page", pages())
def test_the_text_names_the_file_that_a_block_is(page: str) -> None:
    """A fence's second word is not shown to readers."""
    text = (ROOT / page).read_text("utf-8").splitlines()
    for block in blocks(page):
        paragraph = "\n".join(text[: block.line - 1]).rstrip().split("\n\n")[-1]
        assert not block.name or f"`{block.name}`" in paragraph, f"{page}:{block.line}: {block.name}"


def test_what_is_left_out_is_there() -> None:
    for page, titles in LEFT_OUT.items():
        there = {title for block in blocks(page) for title in (block.title, *firsts(block))}
        assert set(titles) <= there, f"{page} no longer has {set(titles) - there}"


def firsts(block: Block) -> list[str]:
    """The first lines of the commands of a block."""
    shell = block.kind in ("console", "sh", "bash")
    return [command.partition("\n")[0] for command, _ in block.commands()] if shell else []
