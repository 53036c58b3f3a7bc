"""Apache ActiveMQ Artemis: `broker.xml`.

An address is a fanout exchange of its name, to which a message for the address is published; its queues are bound to
it, and its diverts are diverts of it. An address with wildcards is one, too: the addresses of the file that it matches
are bound to it, and one topic exchange leads to it from all others, with the address as the key (user manual,
"Addresses", "Routing messages with wild cards", "Diverting and splitting message flows"; seed 004: filters).
"""

from __future__ import annotations

from typing import Any, Final

from bindery.router.definitions.document import DIVERTS_KEY
from bindery.router.errors import FilterError
from bindery.router.importers.artemis_known import (
    DIVERT,
    FORWARD,
    HOLDERS,
    PARTS,
    QUEUE,
    QUEUE_IDLE,
    SETTING,
    SETTING_IDLE,
    SETTINGS,
    TAKEN,
)
from bindery.router.importers.artemis_wildcards import Wildcards
from bindery.router.importers.objects import NO_RETRIES, OF_BROKER, Example, SourceObject, late
from bindery.router.importers.xml import Element, read_xml, refused_at
from bindery.router.model import ALTERNATE_BINDING, QUEUE_FILTER
from bindery.router.queue_limits import DEAD_LETTER_EXCHANGE, LAST_VALUE_KEY, MAX_LENGTH, MESSAGE_TTL, argument
from bindery.router.transforms import setting_texts

#: The exchange for addresses that the file does not name.
ELSEWHERE: Final = "addresses"
#: The property of last values where nothing names one ("Last-Value Queues").
_LVQ_KEY: Final = "_AMQ_LVQ_NAME"
_LATE: Final = late("Artemis")

_ROUTING_TYPES: Final = ("anycast", "multicast")


def read(name: str, raw: bytes, *, access: bool = False) -> list[SourceObject]:
    """The objects of a `broker.xml`; raises DefinitionsRefused for what is no such document."""
    root = read_xml(name, raw)
    core = root if root.name == "core" else root.first("core")
    if core is None:
        raise refused_at(name, "this is no broker.xml: it has no core", root)
    reader = _Reader(core)
    reader.read()
    if root is not core:
        for part in root.children:
            if part is not core:
                _object(reader.found, part.name, "", part).lost(
                    "this part of the file is no topology of Artemis 2", hint="write it as addresses of core"
                )
    for item in reader.found:
        item.refuse_variables("of the broker's system properties")
    return reader.found


def _object(found: list[SourceObject], kind: str, name: str, element: Element) -> SourceObject:
    found.append(SourceObject(kind, name, f"line {element.line}"))
    return found[-1]


class _Reader:
    """Goes through `core`; `found` gets its objects."""

    def __init__(self, core: Element) -> None:
        self.core = core
        self.found: list[SourceObject] = []
        self.wildcards = Wildcards()
        #: What the settings that match an address say together.
        self.settings: list[tuple[str, dict[str, str]]] = []
        self.addresses: dict[str, Element] = {}
        self.targets: set[str] = set()

    def read(self) -> None:
        """Its parts, settings first, because they say what becomes of addresses."""
        for part in self.core.all("wildcard-addresses"):
            self._wildcards(part)
        diverts = [divert for part in self.core.all("diverts") for divert in part.all("divert")]
        for element in (address for part in self.core.all("addresses") for address in part.all("address")):
            name = element.attributes.get("name", "")
            if self.addresses.setdefault(name, element) is not element:
                _object(self.found, "address", name, element).lost(
                    "an earlier address has this name", hint="put the queues of both into one"
                )
        for holder, one in HOLDERS.items():
            for part in self.core.all(holder):
                self._strays(part, one)
        for element in self.addresses.values():
            for kind in _ROUTING_TYPES if element.name == "address" else ():
                for part in element.all(kind):
                    self._strays(part, "queue")
        legacy = [queue for part in self.core.all("queues") for queue in part.all("queue")]
        for named, element in [
            *((queue.said("address") or "", queue) for queue in legacy),
            *((divert.said("address") or "", divert) for divert in diverts),
            *((target, divert) for divert in diverts for target in _targets(divert)),
        ]:
            self.addresses.setdefault(named, element)
        self.targets = {target for divert in diverts for target in _targets(divert)}
        for part in self.core.all("address-settings"):
            for setting in part.all("address-setting"):
                self._setting(setting)
        self.settings.sort(key=lambda one: self._width(one[0]), reverse=True)
        for name, element in self.addresses.items():
            self._address(name, element, diverts)
        for queue in legacy:
            self._queue(queue, queue.said("address") or "", queue.attributes.get("name", ""))
        for divert in diverts:
            self._divert(divert)
        for part in self.core.children:
            if part.name != "wildcard-addresses" and part.name not in HOLDERS:
                self._part(part)

    def _strays(self, part: Element, wanted: str) -> None:
        """What stands where only elements of one name do."""
        for child in part.children:
            if child.name == "include":
                self._part(child)
            elif child.name != wanted:
                _object(self.found, child.name, child.attributes.get("name", ""), child).unknown(
                    "", f"nobody knows this part of {part.name}"
                )

    def _width(self, match: str) -> tuple[int, int, int]:
        """How much a setting matches: the most specific one comes last, and wins."""
        words = match.split(self.wildcards.delimiter)
        return (words.count(self.wildcards.any_words), words.count(self.wildcards.single_word), -len(words))

    def _wildcards(self, part: Element) -> None:
        said = {child.name: child.text for child in part.children}
        item = _object(self.found, "wildcards", "", part)
        for key in said.keys() - {"routing-enabled", "enabled", "delimiter", "any-words", "single-word"}:
            item.unknown(key)
        routed = _true(said.get("routing-enabled", said.get("enabled", "true")))
        stated = (
            said.get(key) or default for key, default in (("delimiter", "."), ("any-words", "#"), ("single-word", "*"))
        )
        self.wildcards = Wildcards(routed, *stated)
        if routed and self.wildcards.delimiter != ".":
            item.differs(
                "delimiter",
                f"keys of the exchange {ELSEWHERE!r} have words that are delimited by full stops",
                hint=f"publish with . in place of {self.wildcards.delimiter} there",
            )

    def _part(self, part: Element) -> None:
        if part.name == "bridges":
            for bridge in part.children:
                self._bridge(bridge)
        elif part.name in PARTS:
            for one in part.children or [part]:
                name = one.attributes.get("name") or one.attributes.get("match") or ""
                _object(self.found, one.name, name, one).lost("no part of a topology", hint=PARTS[part.name])
        elif part.name == "include":
            _object(self.found, "include", part.attributes.get("href", ""), part).lost(
                "what a file includes is not fetched", hint="put the included elements into a copy of the file"
            )
        elif part.name in SETTINGS:
            _object(self.found, "setting", part.name, part).idle("", OF_BROKER)
        else:
            _object(self.found, "setting", part.name, part).unknown("", "nobody knows this part of core")

    def _bridge(self, bridge: Element) -> None:
        item = _object(self.found, "bridge", bridge.attributes.get("name", ""), bridge)
        item.lost(f"nothing is handed on from queue {bridge.said('queue-name')!r}", hint=FORWARD)

    # -- settings of addresses

    def _setting(self, setting: Element) -> None:
        match = setting.attributes.get("match", "")
        item = _object(self.found, "address-setting", match, setting)
        said = {child.name: child.text for child in setting.children}
        if any(match == earlier for earlier, _ in self.settings):
            item.lost("an earlier setting has this match: Artemis takes that one", hint="put both into one")
            return
        self.settings.append((match, said))
        for key, value in said.items():
            if key == "dead-letter-address" and not _true(said.get("send-to-dla-on-no-route")):
                item.differs(key, NO_RETRIES)
            elif key in TAKEN:
                item.idle(key, "said of the addresses and queues that it matches")
            elif key in SETTING:
                asks_nothing, why = SETTING[key]
                if {value, value.lower()} & {*asks_nothing}:
                    item.idle(key, "asks for nothing that is not done")
                else:
                    item.differs(key, why)
            elif key in SETTING_IDLE:
                item.idle(key, OF_BROKER)
            else:
                item.unknown(key)
        for key in setting.attributes.keys() - {"match"}:
            item.unknown(key)

    def _said_of(self, address: str) -> dict[str, str]:
        """What the settings say of an address, the most specific one last."""
        said: dict[str, str] = {}
        for match, keys in self.settings:
            if self.wildcards.matches(match, address):
                said |= keys
        return said

    # -- addresses

    def _address(self, name: str, element: Element, diverts: list[Element]) -> None:
        item = _object(self.found, "address", name, element)
        if element.name != "address":
            item.idle("", f"named by a {element.name}")
        arguments: dict[str, Any] = {}
        said = self._said_of(name)
        if _true(said.get("send-to-dla-on-no-route")) and (letters := said.get("dead-letter-address")):
            arguments[ALTERNATE_BINDING] = {"destination": letters}
            if self.wildcards.is_pattern(name):
                # it would fire for messages that the address itself has delivered
                item.differs(
                    "send-to-dla-on-no-route", "not for addresses that the file does not name", hint="add them to it"
                )
                arguments.clear()
            elif letters not in self.addresses:
                item.differs(
                    "send-to-dla-on-no-route", f"the file has no address {letters!r}", hint="add it to the file"
                )
                arguments.clear()
        item.declares.append(("exchanges", {"name": name, "type": "fanout", "arguments": arguments}))
        if self.wildcards.is_pattern(name):
            self._pattern(item, name, diverts)
        if element.name == "address":
            self._queues(item, name, element)

    def _pattern(self, item: SourceObject, name: str, diverts: list[Element]) -> None:
        """An address that stands for others: the ones of the file lead to it, and a topic exchange for the rest."""
        for other in self.addresses:
            if not self.wildcards.is_pattern(other) and self.wildcards.matches(name, other):
                item.declares.append(("bindings", _bound(other, name, "exchange")))
        key = self.wildcards.key(name)
        if key is None:
            item.differs("name", "a word of it has a full stop or is a wildcard: only addresses of the file lead to it")
            return
        if ELSEWHERE in self.addresses:
            item.differs("name", f"the file has an address {ELSEWHERE!r}: only addresses of the file lead to it")
            return
        item.declares.insert(0, ("exchanges", {"name": ELSEWHERE, "type": "topic"}))
        item.declares.append(("bindings", _bound(ELSEWHERE, name, "exchange", key)))
        address = self.wildcards.example(name)
        plain = [queue for queue in _queues_of(self.addresses[name]) if queue.said("filter") is None]
        others = [one for one in self.addresses if one != name and self.wildcards.is_pattern(one)]
        diverted = any(divert.said("address") in (name, address) for divert in diverts)
        alone = plain and address not in self.addresses and not others and not diverted
        reached = tuple(queue.attributes.get("name", "") for queue in plain)
        item.differs(
            "name",
            f"addresses that the file does not name are keys of the exchange {ELSEWHERE!r}",
            hint=f"publish to {ELSEWHERE!r} with the address as the key, words delimited by full stops",
            example=Example({"exchange": address}, reached) if alone else None,
        )
        if others and any(divert.said("address") == name and _is(divert, "exclusive") for divert in diverts):
            item.differs(
                "exclusive",
                f"of addresses that the file does not name other wildcards get what its diverts take: {others}",
            )

    def _queues(self, item: SourceObject, name: str, element: Element) -> None:
        for key in element.attributes.keys() - {"name"}:
            item.unknown(key)
        for child in element.children:
            if child.name not in _ROUTING_TYPES and child.name != "queue":
                item.unknown(child.name)
        anycast = [queue for part in element.all("anycast") for queue in part.all("queue")]
        listed = list(_queues_of(element))
        if len(anycast) > 1:
            names = [queue.attributes.get("name", "") for queue in listed]
            plain = all(queue.said("filter") is None for queue in listed) and len(listed) == len(anycast)
            item.differs(
                "anycast",
                "a message goes to one of these queues in turn; here each gets a copy",
                hint="bind one queue: its readers share the messages",
                example=Example({"exchange": name}, (names[0],)) if plain else None,
            )
        elif anycast and len(listed) > len(anycast):
            item.differs("anycast", "a message that states a routing type goes to the queues of that type; here to all")
        for queue in listed:
            self._queue(queue, name, queue.attributes.get("name", ""))

    def _queue(self, queue: Element, address: str, name: str) -> None:
        item = _object(self.found, "queue", name, queue)
        said = self._said_of(address)
        stated = {key: value for key, value in queue.attributes.items() if key != "name"}
        stated |= {child.name: child.text for child in queue.children if child.name not in ("filter", "address")}
        arguments: dict[str, Any] = {}
        self._filter(item, queue, address, arguments)
        if not _true(stated.pop("enabled", "true")):
            item.lost("a queue that is not enabled gets no messages", "enabled")
            return
        last_value = stated.pop("last-value", said.get("default-last-value-queue", said.get("last-value-queue", "")))
        last_key = stated.pop("last-value-key", said.get("default-last-value-key"))
        if _true(last_value) or last_key:
            arguments[LAST_VALUE_KEY] = last_key or _LVQ_KEY
            item.differs("last-value", f"the last value of each key stays: {_LATE}")
        for key, limit in (
            ("ring-size", stated.pop("ring-size", said.get("default-ring-size", "-1"))),
            ("expiry-delay", said.get("expiry-delay", "-1")),
        ):
            self._limit(item, key, limit, arguments)
        if (letters := said.get("expiry-address")) and argument(MESSAGE_TTL) in arguments and letters in self.addresses:
            arguments[argument(DEAD_LETTER_EXCHANGE)] = letters
        elif letters:
            item.differs(
                "expiry-address",
                "nothing comes there: messages expire where an expiry-delay is set, and to an address of the file",
            )
        for key, value in stated.items():
            if key in QUEUE:
                asks_nothing, why = QUEUE[key]
                if value.lower() not in asks_nothing:
                    item.differs(key, why)
            elif key in QUEUE_IDLE:
                item.idle(key, QUEUE_IDLE[key])
            else:
                item.unknown(key)
        item.declares += [
            ("queues", {"name": name, "arguments": arguments}),
            ("bindings", _bound(address, name, "queue")),
        ]

    def _filter(self, item: SourceObject, queue: Element, address: str, arguments: dict[str, Any]) -> None:
        text = _filter_of(queue)
        if not text:
            return
        arguments[QUEUE_FILTER] = text
        if "AMQAddress" in text and (address in self.targets or self.wildcards.is_pattern(address)):
            item.differs(
                "filter", "AMQAddress is the exchange that was published to, also after a divert and for wildcards"
            )
        if "AMQSize" in text:
            item.differs("filter.AMQSize", "the bytes of the body; Artemis counts those of the encoded message")

    @staticmethod
    def _limit(item: SourceObject, key: str, limit: str, arguments: dict[str, Any]) -> None:
        try:
            number = int(limit)
        except ValueError:
            item.unknown(key, "this is no number: nothing comes of it")
            return
        if number < 0:
            return
        if key == "ring-size":
            arguments[argument(MAX_LENGTH)] = number
            item.differs(key, f"the oldest go: {_LATE}")
        else:
            arguments[argument(MESSAGE_TTL)] = number
            item.differs(key, f"{_LATE}; it also bounds messages that state a longer time to live")

    # -- diverts

    def _divert(self, divert: Element) -> None:
        name = divert.attributes.get("name") or divert.said("name") or ""
        item = _object(self.found, "divert", name, divert)
        source, exclusive = divert.said("address") or "", _is(divert, "exclusive")
        if not _targets(divert):
            item.lost("it leads nowhere: it has no forwarding-address")
            return
        for key in (divert.attributes.keys() | {child.name for child in divert.children}) - DIVERT:
            item.unknown(key)
        transform = _transformation(divert, item)
        if divert.said("routing-type") is not None:
            item.idle("routing-type", "messages have no routing type here")
        if divert.said("routing-name") is not None:
            item.idle("routing-name", "diverts are known by their names")
        if "AMQAddress" in (text := _filter_of(divert)) and (
            source in self.targets or self.wildcards.is_pattern(source)
        ):
            item.differs("filter", "AMQAddress is the exchange that was published to, also after another divert")
        # an exclusive divert of an address with wildcards keeps messages from the queues of the addresses it matches
        sources = [source]
        if exclusive and self.wildcards.is_pattern(source):
            sources += [
                one
                for one in self.addresses
                if not self.wildcards.is_pattern(one) and self.wildcards.matches(source, one)
            ]
        ends = [(start, target) for start in sources for target in _targets(divert)]
        for number, (start, target) in enumerate(ends):
            declared = {
                "name": name if number == 0 else f"{name}-{number + 1}",
                "source": start,
                "destination": target,
                "filter": text,
                "exclusive": exclusive,
                **({"transform": transform} if transform else {}),
            }
            item.declares.append((DIVERTS_KEY, declared))


#: The transformer that the broker comes with (Artemis, "Transformers").
_ADDS_HEADERS: Final = "org.apache.activemq.artemis.core.server.transformer.AddHeadersTransformer"


def _transformation(divert: Element, item: SourceObject) -> str:
    """What the transformer of a divert is here; one that is Java code of somebody's is a difference."""
    stated = divert.first("transformer")
    if stated is None and divert.said("transformer-class-name") is None:
        return ""
    name = (divert.said("transformer-class-name") if stated is None else stated.said("class-name") or stated.text) or ""
    hint = "what it sets or removes can be written as `transform` of the divert"
    if name.strip() != _ADDS_HEADERS:
        item.differs("transformer", "Java code does not run here", hint=hint)
        return ""
    properties = () if stated is None else stated.all("property")
    values = {one.attributes.get("key", ""): one.attributes.get("value", "") for one in properties}
    if not values:
        item.idle("transformer", "it adds no header")
        return ""
    try:
        return setting_texts(values)
    except FilterError as error:
        item.differs("transformer", f"its headers make no transformation: {error.message}", hint=hint)
        return ""


def _bound(source: str, destination: str, kind: str, key: str = "") -> dict[str, Any]:
    return {"source": source, "destination": destination, "destination_type": kind, "routing_key": key}


def _queues_of(address: Element) -> list[Element]:
    """The queues of an address, those of both routing types and those that stand in it without one."""
    parts = [address, *(part for kind in _ROUTING_TYPES for part in address.all(kind))]
    return [queue for part in parts for queue in part.all("queue")] if address.name == "address" else []


def _filter_of(element: Element) -> str:
    found = element.first("filter")
    if found is None:
        return element.attributes.get("filter", "")
    return found.attributes.get("string", found.text)


def _targets(divert: Element) -> list[str]:
    """The addresses that a divert leads to: one, or several with commas."""
    return [one.strip() for one in (divert.said("forwarding-address") or "").split(",") if one.strip()]


def _is(element: Element, key: str) -> bool:
    return _true(element.said(key))


def _true(said: str | None) -> bool:
    """As Java reads booleans: in any case, and everything else is false."""
    return (said or "").lower() == "true"
