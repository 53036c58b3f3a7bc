"""Documents as text, JSON or YAML: their values, and the line and column of each part.

`read_source` reads one, and refuses what two readers could understand differently: keys that stand twice, and
YAML scalars that are text in one version of YAML and a number or a boolean in the other.
"""

from bindery.router.documents.source import MAX_BYTES, Source, read_source, refusal

__all__ = ["MAX_BYTES", "Source", "read_source", "refusal"]
