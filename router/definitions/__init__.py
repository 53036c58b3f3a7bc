"""Definitions documents in RabbitMQ's format: reading, applying, exporting.

`parse_definitions` reads a cluster document, or one of a single vhost, into objects with their paths,
`read_definitions` one of a file, of which every key must be known, with every error and its place;
`apply` declares them through an editor, all or nothing; `export` writes a document that keeps what the
format loses, typed and void arguments, in the JSON forms of `bindery.router.values`. Users and permissions are
handed through unread: they are no part of a topology.
"""

from bindery.router.definitions.applying import Conflict, Report, apply, check
from bindery.router.definitions.document import Definitions, Entry
from bindery.router.definitions.exporting import as_entry, export, protection_key
from bindery.router.definitions.reading import parse_definitions, parse_every, read_definitions

__all__ = [
    "Conflict",
    "Definitions",
    "Entry",
    "Report",
    "apply",
    "as_entry",
    "check",
    "export",
    "parse_definitions",
    "parse_every",
    "protection_key",
    "read_definitions",
]
