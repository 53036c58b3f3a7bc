"""Options of Spark's readers, by format: a name that no reader knows would be ignored without a word.

The names are those of Spark 4.2's `CSVOptions`, `JSONOptions`, `ParquetOptions`, `FileIndexOptions` and
`FileStreamOptions`, and of Delta 4.4's `DeltaOptions`, without those of writers. Spark reads them whatever their case.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bindery.router.spelling import did_you_mean, nearest

#: Of every source of files: which files, and how many at a time.
_FILES: Final = frozenset(
    {
        *("basePath", "cleanSource", "discardCachedInputRatio", "fileNameOnly", "ignoreInvalidPartitionPaths"),
        *("latestFirst", "maxBytesPerTrigger", "maxCachedFiles", "maxFilesPerTrigger", "pathGlobFilter"),
        *("recursiveFileLookup", "sourceArchiveDir", "timeZone"),
    }
)
#: Of sources of text.
_TEXT: Final = frozenset(
    {
        *("charset", "dateFormat", "enableDateTimeParsingFallback", "encoding", "lineSep", "locale", "multiLine"),
        *("samplingRatio", "singleVariantColumn", "timeFormat", "timestampFormat", "timestampNTZFormat"),
    }
)
OPTIONS: Final[Mapping[str, frozenset[str]]] = {
    "csv": _FILES
    | _TEXT
    | {
        *(
            "charToEscapeQuoteEscaping",
            "columnPruning",
            "comment",
            "delimiter",
            "emptyValue",
            "enforceSchema",
            "escape",
        ),
        *("escape", "header", "ignoreLeadingWhiteSpace", "ignoreTrailingWhiteSpace", "inferSchema", "inputBufferSize"),
        *("maxCharsPerColumn", "maxColumns", "nanValue", "negativeInf", "nullValue", "positiveInf", "preferDate"),
        *("quote", "sep", "unescapedQuoteHandling"),
    },
    "json": _FILES
    | _TEXT
    | {
        *("allowBackslashEscapingAnyCharacter", "allowComments", "allowNonNumericNumbers", "allowNumericLeadingZeros"),
        *("allowSingleQuotes", "allowUnquotedControlChars", "allowUnquotedFieldNames", "dropFieldIfAllNull"),
        *("inferTimestamp", "prefersDecimal", "primitivesAsString"),
    },
    "parquet": _FILES | {"datetimeRebaseMode", "int96RebaseMode", "mergeSchema"},
    "delta": frozenset(
        {
            *("excludeRegex", "failOnDataLoss", "ignoreChanges", "ignoreDeletes", "ignoreFileDeletion"),
            *("maxBytesPerTrigger", "maxFilesPerTrigger", "readChangeData", "readChangeFeed", "schemaLocation"),
            *("schemaTrackingLocation", "startingTimestamp", "startingVersion", "streamingSourceTrackingId"),
            "withEventTimeOrder",
        }
    ),
}
_KNOWN: Final = {form: frozenset(name.lower() for name in names) for form, names in OPTIONS.items()}


def check_names(form: str, options: Mapping[str, str]) -> None:
    """Refuse, by ValueError, an option that the reader of a format does not have.

    Names with a dot are properties of Hadoop's, which the reader hands on.
    """
    for name in options:
        if "." in name or name.lower() in _KNOWN[form]:
            continue
        meant = nearest(name, sorted(OPTIONS[form]))
        hint = did_you_mean(meant, before=": ")
        raise ValueError(f"option {name!r} is none of Spark's reader of {form}{hint}")
