"""Job files as commands take them: from a file, or standard input."""

from __future__ import annotations

import sys
from pathlib import Path

from bindery.cli.documents import STDIN
from bindery.jobs.control.job_text import TEXT_LIMIT, JobText, parse_job_text
from bindery.router.errors import InvalidInput


def read_job_file(path: Path, name: str | None = None) -> JobText:
    """A job file, or standard input; `name` is its stream. Raises InvalidInput."""
    shown = "<stdin>" if path == STDIN else str(path)
    try:
        raw = sys.stdin.buffer.read(TEXT_LIMIT + 1) if path == STDIN else path.read_bytes()
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidInput("a job file is UTF-8", where=shown) from None
    except OSError as error:
        raise InvalidInput(f"cannot read it: {error.strerror}", where=shown) from None
    if len(raw) > TEXT_LIMIT:
        raise InvalidInput(f"more than {TEXT_LIMIT:,} bytes", where=shown)
    return parse_job_text(text, shown, stream=name)
