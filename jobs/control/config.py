"""The job file: what to read, how records become messages, and when (docs/jobs.md).

Every error names the key and the line of the file; nothing is written before the whole file is valid.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import yaml
from pydantic import BaseModel, Field, ValidationError, ValidationInfo, field_validator, model_validator

from bindery.jobs.control.dedup import DedupOptions
from bindery.jobs.control.kafka import KAFKA_CREDENTIALS, KafkaSource
from bindery.jobs.control.parts import Name, Part, Text
from bindery.jobs.control.reader_options import check_names
from bindery.jobs.control.references import is_reference, options_of, resolved
from bindery.router.errors import InvalidInput
from bindery.router.freshness import MOST_SECONDS
from bindery.router.message import MAP_SECTIONS, SECTION_FIELDS, SENT_SCHEMA
from bindery.router.model import DEFAULT_VHOST, MAX_NAME_BYTES
from bindery.router.spelling import did_you_mean, nearest
from bindery.store.maintenance.journals import JournalOptions
from bindery.store.maintenance.options import MaintenanceOptions
from bindery.store.stream_names import why_no_job
from bindery.store.writer import DEFAULT_BUFFER_BYTES

AVAILABLE_NOW: Final = "available-now"
FORMATS: Final = ("json", "csv", "parquet", "delta", "queue", "kafka")
DEFAULT_RECORD_BYTES: Final = 16 * 1024 * 1024
_INTERVAL: Final = re.compile(r"[1-9]\d* (?:millisecond|second|minute|hour)s?")
_BAD_RECORDS: Final = "is set by the job: bad records go to the unroutable table"
_BAD_FILES: Final = "is set by the job: what is missing or damaged would go unnoticed"
_EVERY_FILE: Final = "is not for a job: every file is read once, whatever its time"
#: Options of Spark's readers that a job may not set, in lower case as Spark reads them, and why.
_REFUSED_OPTIONS: Final = {
    "mode": _BAD_RECORDS,
    "columnnameofcorruptrecord": _BAD_RECORDS,
    "path": "is the key source.path",
    "skipchangecommits": "is set by the job: rows that are deleted neither stop it nor come again",
    "ignoremissingfiles": _BAD_FILES,
    "ignorecorruptfiles": _BAD_FILES,
    "maxfileage": _EVERY_FILE,
    "modifiedbefore": _EVERY_FILE,
    "modifiedafter": _EVERY_FILE,
}
#: Values of options that may be set otherwise, and why not to these.
_REFUSED_VALUES: Final = {
    ("filenameonly", "true"): "would skip a file that has the same name in another folder",
    ("cleansource", "delete"): "would delete files that could not be read, too: use archive, or remove files yourself",
    ("failondataloss", "false"): "would let versions that are gone from the log go unnoticed",
}


Expression = Annotated[Text, Field(min_length=1)]


class FileSource(Part):
    """Files of a folder, or a Delta table, read as they arrive."""

    format: Literal["json", "csv", "parquet", "delta"]
    path: Name
    schema_: str | None = Field(default=None, alias="schema")
    unreadable_files: Literal["record", "stop"] = "record"
    options: dict[str, Text] = Field(default={})

    @field_validator("options")
    @classmethod
    def _no_own_options(cls, options: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        for name, value in options.items():
            reason = _REFUSED_OPTIONS.get(name.lower()) or _REFUSED_VALUES.get((name.lower(), value.strip().lower()))
            if reason is not None:
                raise ValueError(f"option {name!r} {reason}")
        form = info.data.get("format")
        if form is not None:
            check_names("delta" if form == "queue" else form, options)
        return options

    @model_validator(mode="after")
    def _schema_where_needed(self) -> FileSource:
        if self.format == "csv" and self.schema_ is None:
            raise ValueError("a csv source needs a schema, such as 'id BIGINT, name STRING'")
        if self.format in ("parquet", "delta") and self.schema_ is not None:
            raise ValueError(f"a {self.format} source brings its own schema; leave `schema` out")
        if self.format == "delta" and "unreadable_files" in self.model_fields_set:
            raise ValueError("unreadable_files is for json, csv and parquet: a Delta table answers for its own files")
        return self


class QueueSource(Part):
    """A queue table as a source: the job is a bridge; `connection` is its own, for no-local filters.

    `payload` is what bodies are for the filter, where the queue does not declare it.
    """

    format: Literal["queue"]
    queue: Name
    vhost: str | None = None
    filter: str | dict[str, Any] | None = None
    dialect: str = "artemis"
    connection: Name | None = None
    payload: Name | None = None
    options: dict[str, Text] = Field(default={})

    _no_own_options = field_validator("options")(FileSource._no_own_options.__func__)  # type: ignore[attr-defined]  # pydantic wraps the classmethod


Source = Annotated[FileSource | QueueSource | KafkaSource, Field(discriminator="format")]


class Job(Part):
    """A validated job file; `maintenance` is None where the trigger decides."""

    stream: Name
    vhost: Name = DEFAULT_VHOST
    source: Source
    message: dict[str, Expression | dict[str, Expression]] = Field(default={})
    trigger: str = "10 seconds"
    max_record_bytes: int = Field(default=DEFAULT_RECORD_BYTES, ge=1)
    max_batch_records: int = Field(default=20_000, ge=1)
    task_buffer_bytes: int = Field(default=DEFAULT_BUFFER_BYTES, ge=1024 * 1024)
    maintenance: bool | MaintenanceOptions | None = None
    journal: bool | JournalOptions = False
    freshness: int = Field(default=0, ge=0, le=MOST_SECONDS)
    dedup: DedupOptions | None = None

    @property
    def journal_options(self) -> JournalOptions | None:
        """What is kept in the journal of the stream; None without one."""
        if isinstance(self.journal, JournalOptions):
            return self.journal
        return JournalOptions() if self.journal else None

    @field_validator("stream")
    @classmethod
    def _stream_fits(cls, name: str) -> str:
        if len(name.encode()) > MAX_NAME_BYTES:
            raise ValueError(f"longer than {MAX_NAME_BYTES} bytes")
        reserved = why_no_job(name)
        if reserved is not None:
            raise ValueError(f"{reserved}; give it another name")
        return name

    @field_validator("message")
    @classmethod
    def _message_columns(cls, message: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        if "exchange" in message and getattr(info.data.get("source"), "exchanges", None):
            raise ValueError("either source.exchanges or message.exchange says where messages go, not both")
        for fault in _message_faults(message):
            raise fault
        return message

    @field_validator("trigger")
    @classmethod
    def _known_trigger(cls, trigger: str) -> str:
        if trigger != AVAILABLE_NOW and not _INTERVAL.fullmatch(trigger):
            raise ValueError(f"{trigger!r} is neither {AVAILABLE_NOW!r} nor an interval such as '10 seconds'")
        return trigger


def _message_faults(message: Mapping[str, Any]) -> Iterator[ValueError]:
    """What is wrong with the columns and fields that a job fills."""
    for column, content in message.items():
        if column not in SENT_SCHEMA.names:
            yield _UnknownKey(str(column), SENT_SCHEMA.names)
        elif isinstance(content, dict):
            fields = SECTION_FIELDS.get(column)
            if fields is None and column not in MAP_SECTIONS:
                yield ValueError(f"{column}: one expression, not a map of them")
            for name in content:
                if fields is not None and name not in fields:
                    yield _UnknownKey(f"{column}.{name}", [f"{column}.{field}" for field in fields])


class _UnknownKey(ValueError):
    def __init__(self, key: str, known: list[str]) -> None:
        super().__init__(f"unknown key {key!r}")
        self.key = key
        self.known = known


@dataclass(frozen=True, slots=True)
class JobFile:
    """A job together with the lines of its keys, for errors that only Spark can find."""

    job: Job
    name: str
    lines: Mapping[tuple[str, ...], int]

    def error(self, path: tuple[str, ...], message: str, *, hint: str | None = None) -> InvalidInput:
        """The error for a key of this file; a key that is not there gets its parent's line."""
        return InvalidInput(f"{'.'.join(path)}: {message}", where=self.place(path), hint=hint)

    def place(self, path: tuple[str, ...]) -> str:
        """File and line of a key."""
        while path and path not in self.lines:
            path = path[:-1]
        return f"{self.name}, line {self.lines.get(path, 1)}" if self.lines else self.name


def load_job(path: str | Path) -> JobFile:
    """Read and validate a job file; raises InvalidInput naming the key and its line."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"cannot read the job file: {error.strerror}", where=str(path)) from None
    except UnicodeDecodeError as error:
        raise InvalidInput(f"cannot read the job file: {error}", where=str(path)) from None
    return parse_job(text, name=str(path))


def parse_job(text: str, *, name: str = "job.yaml") -> JobFile:
    """A job from the text of its file; see load_job."""
    content, places = read_document(text, name)
    lines = {path: line for path, (line, _) in places.items()}
    return _validated(_with_secrets(content, JobFile(Job.model_construct(), name, lines)), lines, name)


def read_document(text: str, name: str) -> tuple[dict[str, Any], dict[tuple[str, ...], tuple[int, int]]]:
    """The keys of a job file, YAML or JSON, and the line and column of each. Raises InvalidInput."""
    places: dict[tuple[str, ...], tuple[int, int]] = {}
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        if node is not None:
            _note_places(node, (), places, name)
        content = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        where = name if mark is None else f"{name}, line {mark.line + 1}"
        raise InvalidInput(f"not YAML: {getattr(error, 'problem', None) or error}", where=where) from None
    if not isinstance(content, dict):
        raise InvalidInput("a job file is a map of keys", where=name, hint="keys: " + ", ".join(Job.model_fields))
    return content, places


def _with_secrets(content: Mapping[str, Any], file: JobFile) -> Mapping[str, Any]:
    """What a file says, with the secrets that it refers to."""
    for option, value in options_of(content).items():
        if str(option).lower() in KAFKA_CREDENTIALS and not is_reference(value):
            raise file.error(
                ("source", "options", str(option)), "a credential in clear", hint="refer to it: {secret: NAME}"
            )
    try:
        return resolved(content)[0]
    except InvalidInput as error:
        error.where = file.place(("source", "options"))
        raise


def job_of(document: Mapping[str, Any], *, name: str = "job document") -> JobFile:
    """A job from a document that has been read already, such as the body of a request; it counts as one line."""
    return _validated(document, _one_line(document), name)


def errors_of(document: Mapping[str, Any]) -> list[InvalidInput]:
    """Everything that is wrong with the keys of a document, what `job_of` raises first."""
    try:
        Job.model_validate(document)
    except ValidationError as error:
        return _errors(error, JobFile(Job.model_construct(), "job document", _one_line(document)), document)
    return []


def _one_line(document: Mapping[str, Any]) -> dict[tuple[str, ...], int]:
    lines: dict[tuple[str, ...], int] = {}
    pending: list[tuple[tuple[str, ...], Any]] = [((), document)]
    while pending:
        path, content = pending.pop()
        lines[path] = 1
        if isinstance(content, Mapping):
            pending += [((*path, str(key)), value) for key, value in content.items()]
    return lines


def job_of_mapping(message: Mapping[str, Any]) -> JobFile:
    """A job of which only `message` and the caps count: a program's own DataFrame takes the place of its source.

    Raises InvalidInput naming the key.
    """
    try:
        file = job_of({"stream": "mapping", "source": {"format": "delta", "path": "-"}, "message": message})
    except InvalidInput as error:
        error.where = "mapping"
        raise
    return JobFile(file.job, "mapping", {})


def _validated(content: Mapping[str, Any], lines: Mapping[tuple[str, ...], int], name: str) -> JobFile:
    try:
        job = Job.model_validate(content)
    except ValidationError as error:
        raise _errors(error, JobFile(Job.model_construct(), name, lines), content)[0] from None
    return JobFile(job, name, lines)


def _note_places(
    node: yaml.Node, path: tuple[str, ...], places: dict[tuple[str, ...], tuple[int, int]], name: str
) -> None:
    places.setdefault(path, (node.start_mark.line + 1, node.start_mark.column + 1))
    if not isinstance(node, yaml.MappingNode):
        return
    for key, value in node.value:
        place = (*path, str(key.value))
        line = key.start_mark.line + 1
        if place in places:
            raise InvalidInput(f"{'.'.join(place)}: stated twice", where=f"{name}, line {line}")
        places[place] = (line, key.start_mark.column + 1)
        _note_places(value, place, places, name)


def _errors(error: ValidationError, file: JobFile, content: Mapping[str, Any]) -> list[InvalidInput]:
    """What is wrong, the most telling first."""
    # an unknown key usually explains the missing one; of alternatives, the one that read furthest
    found = sorted(
        ((_keys(item, file), item) for item in error.errors()),
        key=lambda pair: (pair[1]["type"] != "extra_forbidden", -len(pair[0])),
    )
    errors: list[InvalidInput] = []
    said: set[tuple[str, ...]] = set()
    message = content.get("message")
    columns = list(_message_faults(message)) if isinstance(message, Mapping) else []
    for path, item in found:
        place = (*path, str(item["loc"][-1])) if item["type"] == "missing" else path
        # of a key that has several forms, one says what is wrong
        if any(other[: len(place)] == place for other in said):
            continue
        cause = item.get("ctx", {}).get("error")
        # the model tells the first of the columns that are wrong
        is_column = path == ("message",) and str(cause) in map(str, columns)
        faults: list[Any] = list(columns) if is_column else [cause]
        errors += [_error(path, item, fault, file) for fault in faults]
        columns = [] if is_column else columns
        said.add(place)
    # where a value is wrong, columns are not looked at by the model
    beside = {"type": "value_error", "loc": ("message",), "msg": ""}
    return errors + [_error(("message",), beside, fault, file) for fault in columns]


def _error(path: tuple[str, ...], found: Any, cause: object, file: JobFile) -> InvalidInput:
    if isinstance(cause, _UnknownKey):
        return file.error((*path, *cause.key.split(".", 1)), "unknown key", hint=_meant(cause.key, cause.known))
    if found["type"] == "extra_forbidden":
        return file.error(path, "unknown key", hint=_meant(path[-1], _keys_at(path[:-1], found["loc"])))
    if found["type"] == "missing":
        return file.error((*path, str(found["loc"][-1])), "missing")
    if found["type"].startswith("union_tag"):
        return file.error((*path, "format"), f"unknown or missing format; one of {', '.join(FORMATS)}")
    return file.error(path, str(cause) if cause is not None else found["msg"])


def _keys(found: Any, file: JobFile) -> tuple[str, ...]:
    """The keys of the file in an error's location, without what pydantic adds (tags, validators)."""
    path: tuple[str, ...] = ()
    for part in found["loc"]:
        if (*path, str(part)) in file.lines:
            path = (*path, str(part))
    return path


def _keys_at(path: tuple[str, ...], location: tuple[int | str, ...]) -> list[str]:
    if not path:
        return list(Job.model_fields)
    models: dict[Any, type[BaseModel]] = {
        "queue": QueueSource,
        "kafka": KafkaSource,
        MaintenanceOptions.__name__: MaintenanceOptions,
        JournalOptions.__name__: JournalOptions,
    }
    if path[0] == "dedup":
        return list(DedupOptions.model_fields)
    model = next((models[part] for part in location if part in models), FileSource)
    return [field.alias or name for name, field in model.model_fields.items()]


def _meant(key: str, known: list[str]) -> str:
    near = nearest(key, known)
    return did_you_mean(near, then="known keys: " + ", ".join(known))
