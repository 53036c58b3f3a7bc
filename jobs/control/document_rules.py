"""What a job document from the network may ask for: a job can read files and call functions of Spark.

Paths lie under allowed folders once every link is followed, options are those known to be harmless,
credentials are references. Expressions are judged twice: by their text here, so that most are refused at
once, and by their parsed form in the job before anything runs (jobs/expressions.py), which decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bindery.jobs.control.bridge import bridge_filter
from bindery.jobs.control.config import FileSource, JobFile, QueueSource, errors_of, job_of
from bindery.jobs.control.kafka import KAFKA_CREDENTIALS, KafkaSource
from bindery.jobs.control.references import is_reference, options_of, without_secrets
from bindery.router.errors import InvalidInput
from bindery.store.paths import DataDir
from bindery.store.places import at, normalised

_NAMES: Final = """
    maxFilesPerTrigger maxBytesPerTrigger latestFirst maxFileAge fileNameOnly maxCachedFiles discardCachedInputRatio
    pathGlobFilter recursiveFileLookup modifiedBefore modifiedAfter
    encoding charset lineSep multiLine locale timeZone dateFormat timestampFormat timestampNTZFormat
    enableDateTimeParsingFallback header sep delimiter quote escape charToEscapeQuoteEscaping comment
    ignoreLeadingWhiteSpace ignoreTrailingWhiteSpace nullValue emptyValue nanValue positiveInf negativeInf
    maxColumns maxCharsPerColumn enforceSchema unescapedQuoteHandling primitivesAsString prefersDecimal allowComments
    allowUnquotedFieldNames allowSingleQuotes allowNumericLeadingZeros allowBackslashEscapingAnyCharacter
    allowUnquotedControlChars allowNonNumericNumbers dropFieldIfAllNull
    mergeSchema datetimeRebaseMode int96RebaseMode
    startingVersion startingTimestamp ignoreDeletes ignoreChanges failOnDataLoss
    fetchOffset.numRetries fetchOffset.retryIntervalMs kafkaConsumer.pollTimeoutMs maxTriggerDelay minOffsetsPerTrigger
    kafka.security.protocol kafka.sasl.mechanism kafka.ssl.protocol kafka.ssl.enabled.protocols
    kafka.ssl.keystore.type kafka.ssl.keystore.certificate.chain kafka.ssl.truststore.type
    kafka.ssl.truststore.certificates kafka.client.id kafka.client.rack kafka.isolation.level
    kafka.default.api.timeout.ms kafka.request.timeout.ms kafka.fetch.max.bytes kafka.max.partition.fetch.bytes
    kafka.fetch.max.wait.ms kafka.max.poll.records kafka.receive.buffer.bytes
"""
#: Options of Spark's readers that name no file, no class and no address; in lower case, as Spark reads them.
HARMLESS_OPTIONS: Final = frozenset(_NAMES.lower().split())
#: Options that take a reference to a secret and no text.
CREDENTIALS: Final = KAFKA_CREDENTIALS | {"fs.s3a.access.key", "fs.s3a.secret.key", "fs.s3a.session.token"}
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_GLOB: Final = re.compile(r"[*?\[\]{}\\]")
_LITERAL: Final = re.compile(r"""'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*\"""", re.DOTALL)
_REFUSED: Final = re.compile(
    r"\b(reflect|try_reflect|java_method|from_xml|schema_of_xml|identifier)`?\s*\(|\(\s*(select|with)\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class DocumentRules:
    """The rules of one service.

    roots  folders (or addresses such as s3://bucket/prefix) below which a source may lie, and brokers of Kafka that it
           may name, as kafka://HOST:PORT
    """

    data: DataDir
    roots: tuple[str, ...] = ()

    def check(self, document: Mapping[str, Any]) -> JobFile:
        """The job of a document that keeps the rules; raises InvalidInput naming the key.

        Secrets stay unresolved, and the path of the source is the one that was checked, without links.
        """
        file, errors = self.examine(document)
        if file is None or errors:
            raise errors[0]
        return file

    def examine(self, document: Mapping[str, Any]) -> tuple[JobFile | None, list[InvalidInput]]:
        """The job of a document as `check` gives it, and everything that it breaks; None where it is no job."""
        errors: list[InvalidInput] = []
        for option, value in options_of(document).items():
            with _noted(errors):
                self._check_option(str(option), value)
        plain = without_secrets(document)
        wrong = errors_of(plain)
        if wrong:
            return None, errors + wrong
        file = job_of(plain)
        with _noted(errors):
            if isinstance(file.job.source, FileSource):
                path = self._checked_path(file, file.job.source.path)
                file = job_of({**plain, "source": {**plain["source"], "path": path}})
            elif isinstance(file.job.source, KafkaSource):
                self._check_brokers(file, file.job.source)
            else:
                self._check_filter(file, file.job.source)
        for column, content in file.job.message.items():
            for key, text in content.items() if isinstance(content, dict) else [("", content)]:
                with _noted(errors):
                    _check_text(file, tuple(filter(None, ("message", column, key))), text)
        return file, errors

    def _check_filter(self, file: JobFile, source: QueueSource) -> None:
        try:
            bridge_filter(self.data, source, file)
        except InvalidInput as error:
            key = "payload" if str(error.where).endswith("source.payload") else "filter"
            raise file.error(("source", key), error.message, hint=error.hint) from None

    def _check_option(self, option: str, value: object) -> None:
        name = option.lower()
        if name in CREDENTIALS:
            if not is_reference(value):
                raise InvalidInput(
                    f"source.options.{option}: a credential in clear",
                    where="source.options",
                    hint='refer to it: {"secret": "NAME"}',
                )
        elif is_reference(value):
            raise InvalidInput(
                f"source.options.{option}: takes no secret",
                where="source.options",
                hint="secrets are for " + ", ".join(sorted(CREDENTIALS)),
            )
        elif name not in HARMLESS_OPTIONS:
            raise InvalidInput(
                f"source.options.{option}: not an option that a submitted job may set",
                where="source.options",
                hint="run the job with `bindery route`, or let the operator set it for Spark",
            )

    def _checked_path(self, file: JobFile, path: str) -> str:
        key = ("source", "path")
        if "\0" in path or _GLOB.search(path):
            raise file.error(key, "a pattern, not a folder", hint="narrow the files by the option pathGlobFilter")
        scheme = _SCHEME.match(path)
        if scheme is not None and scheme[1].lower() != "file":
            return self._checked_address(file, path)
        if scheme is not None:
            path = "/" + path[scheme.end() :].lstrip("/")
        if not path.startswith("/"):
            raise file.error(key, "not absolute", hint="a job has no folder of its own to start from")
        real = Path(path).resolve()
        data = Path(self.data.root).resolve()
        inbox = data / "inbox"
        if data.is_relative_to(real) or (real.is_relative_to(data) and not real.is_relative_to(inbox)):
            raise file.error(key, "holds what the service keeps for itself", hint=f"of the data directory only {inbox}")
        roots = [inbox, *(Path(root).resolve() for root in self.roots if _SCHEME.match(root) is None)]
        if not any(real.is_relative_to(root) for root in roots):
            raise self._outside(file)
        return str(real)

    def _checked_address(self, file: JobFile, path: str) -> str:
        if any(part in (".", "..") for part in path.split("/")) or "%" in path:
            raise file.error(("source", "path"), "an address with '.', '..' or '%' in it")
        address, data = normalised(path), self.data.root
        inbox = f"{data}/inbox"
        if at(data).is_remote:
            if f"{address}/".startswith(f"{inbox}/"):
                return path
            if f"{address}/".startswith(f"{data}/") or f"{data}/".startswith(f"{address}/"):
                hint = f"of the data directory only {inbox}"
                raise file.error(("source", "path"), "holds what the service keeps for itself", hint=hint)
        for root in self.roots:
            if _SCHEME.match(root) and (path == root or path.startswith(root.rstrip("/") + "/")):
                return path
        raise self._outside(file)

    def _check_brokers(self, file: JobFile, source: KafkaSource) -> None:
        for server in source.bootstrap_servers:
            if f"kafka://{server}" not in self.roots:
                raise file.error(
                    ("source", "bootstrap_servers"),
                    f"{server} is not among the brokers that submitted jobs may read",
                    hint="the operator allows brokers as kafka://HOST:PORT by the setting jobs.roots",
                )

    def _outside(self, file: JobFile) -> InvalidInput:
        return file.error(
            ("source", "path"),
            "outside the folders that submitted jobs may read",
            hint="the operator allows folders by the setting jobs.roots",
        )


@contextmanager
def _noted(errors: list[InvalidInput]) -> Iterator[None]:
    try:
        yield
    except InvalidInput as error:
        errors.append(error)


def _check_text(file: JobFile, key: tuple[str, ...], text: str) -> None:
    found = _REFUSED.search(_LITERAL.sub("''", text))
    if found is not None:
        raise file.error(key, f"{(found[1] or found[2]).lower()} is not allowed in a submitted job")
