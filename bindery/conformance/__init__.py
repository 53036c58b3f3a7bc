"""Language-neutral conformance cases: read them, run them on the engine and on the references, report.

A case is one JSON object on a line of a `.jsonl` file; `docs/conformance.md` gives the format. Every case
is run twice, by two implementations that share no evaluation code: the production engine, on batches, and
the slow reference, one message at a time. A case passes when both give the expected result.
"""

from __future__ import annotations

from bindery.conformance.cases import PUBLISHING, Case, read_cases
from bindery.conformance.report import Outcome, Report, Status
from bindery.conformance.run import run_cases

__all__ = ["PUBLISHING", "Case", "Outcome", "Report", "Status", "read_cases", "run_cases"]
