"""Schemas of bodies (`x-payload-schema`): read when they are declared, compiled once in a process."""

from bindery.router.filters.schemas.reading import MAX_SCHEMA, SCHEMA_FORMATS, Decoder, decoder, read_schema

__all__ = ["MAX_SCHEMA", "SCHEMA_FORMATS", "Decoder", "decoder", "read_schema"]
