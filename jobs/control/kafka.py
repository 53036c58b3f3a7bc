"""Kafka in the job file: which topics are read, from where, and what may be said about the connection."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from bindery.jobs.control.parts import Name, Part, Text

#: Settings of the connection that are secrets, as options of Spark's reader: they take a reference and no text.
KAFKA_CREDENTIALS: Final = frozenset(
    {
        "kafka.sasl.jaas.config",
        "kafka.ssl.key.password",
        "kafka.ssl.keystore.key",
        "kafka.ssl.keystore.password",
        "kafka.ssl.truststore.password",
    }
)
#: Legal names of topics, as the broker checks them.
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_ADDRESS: Final = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[^\s,:/\[\]]+):\d{1,5}")
#: What Spark calls the two ends of a partition.
_ENDS: Final = {"latest": -1, "earliest": -2}
#: Options of Spark's reader that are not Kafka's own, in lower case as Spark reads them.
_OPTIONS: Final = frozenset(
    {
        "fetchoffset.numretries",
        "fetchoffset.retryintervalms",
        "groupidprefix",
        "kafkaconsumer.polltimeoutms",
        "maxtriggerdelay",
        "minoffsetspertrigger",
    }
)
#: Options that are keys of the source, and which.
_KEYS: Final = {
    "kafka.bootstrap.servers": "bootstrap_servers",
    "subscribe": "topics",
    "assign": "topics",
    "subscribepattern": "pattern",
    "startingoffsets": "starting_offsets",
    "maxoffsetspertrigger": "max_offsets_per_trigger",
    "minpartitions": "min_partitions",
    "failondataloss": "on_lost_offsets",
}


def _listed(value: object) -> object:
    """One text is a list of one, or of several between commas."""
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else value


Listed = Annotated[tuple[Name, ...], BeforeValidator(_listed), Field(min_length=1)]


class KafkaSource(Part):
    """Topics of a Kafka cluster.

    topics, pattern          which are read: these, or those whose whole name fits a Java regular expression
    exchanges                topic -> exchange; other topics go to the exchange of their own name
    starting_offsets         of the first start: topic -> partition -> offset, where -1 is the end and -2 the beginning
    max_offsets_per_trigger  records of a batch, over all partitions
    min_partitions           tasks of a batch at least; without it one for each partition that has records
    on_lost_offsets          what follows when records are gone before they were read
    """

    format: Literal["kafka"]
    bootstrap_servers: Listed
    topics: Listed | None = None
    pattern: Name | None = None
    exchanges: dict[str, str] = Field(default={})
    starting_offsets: Literal["earliest", "latest"] | dict[str, dict[int, int]] = "earliest"
    max_offsets_per_trigger: int | None = Field(default=None, ge=1)
    min_partitions: int | None = Field(default=None, ge=1)
    on_lost_offsets: Literal["stop", "continue"] = "stop"
    options: dict[str, Text] = Field(default={})

    @field_validator("bootstrap_servers")
    @classmethod
    def _addresses(cls, servers: tuple[str, ...]) -> tuple[str, ...]:
        for server in servers:
            if not _ADDRESS.fullmatch(server):
                raise ValueError(f"{server!r} is no address of a broker, such as kafka.example.com:9092")
        return servers

    @field_validator("topics")
    @classmethod
    def _legal(cls, topics: tuple[str, ...] | None) -> tuple[str, ...] | None:
        for topic in topics or ():
            if not _TOPIC.fullmatch(topic):
                raise ValueError(f"{topic!r} is no name of a topic: letters, digits, '.', '_' and '-', at most 249")
        return topics

    @field_validator("starting_offsets", mode="before")
    @classmethod
    def _offsets(cls, value: object) -> object:
        if isinstance(value, str) and value.lstrip().startswith("{"):
            try:
                value = json.loads(value)
            except ValueError as error:
                raise ValueError(f"not JSON: {error}") from None
        if isinstance(value, str) and value in _ENDS:
            return value
        if not isinstance(value, Mapping):
            raise ValueError(
                "earliest, latest, or offsets by topic and partition, such as {orders: {0: 17, 1: earliest}}"
            )
        return {str(topic): _partitions(str(topic), offsets) for topic, offsets in value.items()}

    @field_validator("options")
    @classmethod
    def _known_options(cls, options: dict[str, str]) -> dict[str, str]:
        for name in options:
            if name.lower() in _KEYS:
                raise ValueError(f"option {name!r} is the key source.{_KEYS[name.lower()]}")
            if name.lower() == "includeheaders":
                raise ValueError(f"option {name!r} is set by the job: headers become application properties")
            if name.lower() not in _OPTIONS and not name.lower().startswith("kafka."):
                raise ValueError(f"option {name!r} is none of a Kafka source; settings of Kafka begin with 'kafka.'")
        return options

    @model_validator(mode="after")
    def _one_choice(self) -> KafkaSource:
        if (self.topics is None) == (self.pattern is None):
            raise ValueError("either topics or pattern says what is read" + (", not both" if self.topics else ""))
        if self.topics is not None:
            for key, named in (("exchanges", self.exchanges), ("starting_offsets", self.starting_offsets)):
                for topic in named if isinstance(named, Mapping) else ():
                    if topic not in self.topics:
                        raise ValueError(f"{key} names {topic!r}, which is not among the topics")
        return self

    @property
    def reader_options(self) -> dict[str, str]:
        """The options of Spark's reader that say all this."""
        found = {
            # what was written in a transaction counts once that has been committed, as its writer means it
            "kafka.isolation.level": "read_committed",
            **self.options,
            "kafka.bootstrap.servers": ",".join(self.bootstrap_servers),
            "includeHeaders": "true",
            "failOnDataLoss": str(self.on_lost_offsets == "stop").lower(),
            "startingOffsets": (
                self.starting_offsets if isinstance(self.starting_offsets, str) else json.dumps(self.starting_offsets)
            ),
        }
        if self.topics is not None:
            found["subscribe"] = ",".join(self.topics)
        if self.pattern is not None:
            found["subscribePattern"] = self.pattern
        if self.max_offsets_per_trigger is not None:
            found["maxOffsetsPerTrigger"] = str(self.max_offsets_per_trigger)
        if self.min_partitions is not None:
            found["minPartitions"] = str(self.min_partitions)
        return found


def _partitions(topic: str, offsets: object) -> dict[int, int]:
    if not isinstance(offsets, Mapping):
        raise ValueError(f"{topic}: offsets by partition, such as {{0: 17, 1: earliest}}")
    return {
        _number(topic, partition, 0): _number(topic, _ENDS.get(offset, offset), -2)
        for partition, offset in offsets.items()
    }


def _number(topic: str, value: Any, least: int) -> int:
    """A partition, which is text as a key of JSON, or an offset."""
    try:
        number = int(value) if isinstance(value, int | str) and not isinstance(value, bool) else least - 1
    except ValueError:
        number = least - 1
    if number < least:
        raise ValueError(f"{topic}: {value!r} is neither a number nor earliest or latest")
    return number
