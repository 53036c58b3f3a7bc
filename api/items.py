"""The JSON objects of answers, as types: the views give them, and the OpenAPI document describes them.

An object holds no other fields than these. Which of them it holds depends on the request: `columns` leaves
fields out, and so do statistics of something that has none. So no field of a listed object is required.
"""

from __future__ import annotations

from typing import Any, Generic, Literal, NotRequired, TypeVar

from pydantic import ConfigDict, JsonValue, with_config
from typing_extensions import TypedDict

T = TypeVar("T")
Arguments = dict[str, JsonValue]


def _nothing_required(schema: dict[str, Any]) -> None:
    schema.pop("required", None)


#: An object with these fields and no others; one of which a request may ask for some fields only.
_EXACT = ConfigDict(extra="forbid")
_LISTED = ConfigDict(extra="forbid", json_schema_extra=_nothing_required)


@with_config(_LISTED)
class PageOf(TypedDict, Generic[T]):
    """A page of a list, given when `page` is asked for."""

    total_count: int
    filtered_count: int
    item_count: int
    page: int
    page_size: int
    page_count: int
    items: list[T]


def paged(item: Any) -> Any:
    """The answers of a list that has pages: all objects, or one page of them."""
    return list[item] | PageOf[item]


@with_config(_EXACT)
class Rate(TypedDict):
    """Events a second; not measured, always 0."""

    rate: float


@with_config(_LISTED)
class MessageStats(TypedDict, total=False):
    """What this process counted; fields that do not belong to the kind of object are missing."""

    ack: int
    ack_details: Rate
    confirm: int
    confirm_details: Rate
    deliver: int
    deliver_details: Rate
    deliver_get: int
    deliver_get_details: Rate
    deliver_no_ack: int
    deliver_no_ack_details: Rate
    disk_reads: int
    disk_reads_details: Rate
    disk_writes: int
    disk_writes_details: Rate
    drop_unroutable: int
    drop_unroutable_details: Rate
    get: int
    get_details: Rate
    get_empty: int
    get_empty_details: Rate
    get_no_ack: int
    get_no_ack_details: Rate
    publish: int
    publish_details: Rate
    publish_in: int
    publish_in_details: Rate
    publish_out: int
    publish_out_details: Rate
    redeliver: int
    redeliver_details: Rate
    return_unroutable: int
    return_unroutable_details: Rate


@with_config(_LISTED)
class MessageTotals(TypedDict, total=False):
    """Messages of some queues; all of them are ready. Nothing is said where there is no queue."""

    messages: int
    messages_details: Rate
    messages_ready: int
    messages_ready_details: Rate
    messages_unacknowledged: int
    messages_unacknowledged_details: Rate


@with_config(_LISTED)
class BindingItem(TypedDict):
    """A binding."""

    source: str
    vhost: str
    destination: str
    destination_type: Literal["queue", "exchange"]
    routing_key: str
    arguments: Arguments
    properties_key: str


@with_config(_LISTED)
class DivertItem(TypedDict):
    """A divert."""

    name: str
    vhost: str
    source: str
    destination: str
    filter: str
    exclusive: bool
    routing_key: str | None
    transform: str


PolicyItem = TypedDict(  # one of its fields has a name that is no name of Python's
    "PolicyItem",
    {
        "vhost": str,
        "name": str,
        "pattern": str,
        "apply-to": str,
        "definition": Arguments,
        "priority": int,
    },
)
PolicyItem.__doc__ = "A policy."
with_config(_LISTED)(PolicyItem)


@with_config(_EXACT)
class VhostMetadata(TypedDict, total=False):
    """What describes a vhost."""

    description: str
    tags: list[str]
    default_queue_type: str


@with_config(_LISTED)
class VhostItem(MessageTotals):
    """A vhost."""

    name: str
    description: str
    tags: list[str]
    default_queue_type: str
    metadata: VhostMetadata
    tracing: bool
    compat: str
    cluster_state: dict[str, str]
    message_stats: MessageStats


@with_config(_LISTED)
class ExchangeItem(TypedDict, total=False):
    """An exchange; `incoming` and `outgoing` only where one exchange is shown."""

    name: str
    vhost: str
    type: str
    durable: bool
    auto_delete: bool
    internal: bool
    arguments: Arguments
    user_who_performed_action: str
    policy: str
    message_stats: MessageStats
    incoming: list[JsonValue]
    outgoing: list[JsonValue]


@with_config(_LISTED)
class BackingQueueStatus(TypedDict):
    """Where the messages of a queue are: all of them in its table."""

    avg_ack_egress_rate: float
    avg_ack_ingress_rate: float
    avg_egress_rate: float
    avg_ingress_rate: float
    mode: str
    len: int
    delta: list[JsonValue]
    q1: int
    q2: int
    q3: int
    q4: int
    next_deliver_seq_id: int
    next_seq_id: int
    target_ram_count: str
    version: int


@with_config(_LISTED)
class QueueItem(MessageTotals, total=False):
    """A queue; `consumer_details`, `deliveries` and `incoming` only where one queue is shown."""

    name: str
    vhost: str
    type: str
    durable: bool
    auto_delete: bool
    exclusive: bool
    arguments: Arguments
    node: str
    state: str
    policy: str | None
    operator_policy: str | None
    effective_policy_definition: Arguments
    consumers: int
    consumer_capacity: int
    consumer_utilisation: int
    exclusive_consumer_tag: str | None
    single_active_consumer_tag: str | None
    recoverable_slaves: list[str] | None
    head_message_timestamp: int | None
    memory: int
    messages_ram: int
    messages_ready_ram: int
    messages_unacknowledged_ram: int
    message_bytes_ram: int
    message_bytes_unacknowledged: int
    reductions: int
    reductions_details: Rate
    garbage_collection: dict[str, int]
    message_stats: MessageStats
    waiting: int
    messages_persistent: int
    messages_paged_out: int
    message_bytes: int
    message_bytes_ready: int
    message_bytes_persistent: int
    message_bytes_paged_out: int
    idle_since: str
    backing_queue_status: BackingQueueStatus
    consumer_details: list[JsonValue]
    deliveries: list[JsonValue]
    incoming: list[JsonValue]


@with_config(_LISTED)
class UserItem(TypedDict):
    """A user."""

    name: str
    password_hash: str
    hashing_algorithm: str
    tags: list[str]
    limits: dict[str, int]


@with_config(_EXACT)
class WhoAmI(TypedDict):
    """The caller."""

    name: str
    tags: list[str]


@with_config(_EXACT)
class Rights(TypedDict):
    """What a caller may do with an object of one name."""

    configure: bool
    write: bool
    read: bool


@with_config(_EXACT)
class RightsByName(TypedDict):
    """What the caller may do with exchanges and queues, by their names."""

    names: dict[str, Rights]


@with_config(_LISTED)
class PermissionItem(TypedDict):
    """What a user may do in a vhost."""

    user: str
    vhost: str
    configure: str
    write: str
    read: str


@with_config(_LISTED)
class TopicPermissionItem(TypedDict):
    """Which routing keys a user may use with a topic exchange."""

    user: str
    vhost: str
    exchange: str
    write: str
    read: str


@with_config(_LISTED)
class ParameterItem(TypedDict):
    """A parameter of a component."""

    component: str
    vhost: str
    name: str
    value: JsonValue


@with_config(_LISTED)
class GlobalParameterItem(TypedDict):
    """A global parameter."""

    name: str
    value: JsonValue


@with_config(_LISTED)
class VhostLimitsItem(TypedDict):
    """The limits of a vhost."""

    vhost: str
    value: dict[str, JsonValue]


@with_config(_LISTED)
class UserLimitsItem(TypedDict):
    """The limits of a user."""

    user: str
    value: dict[str, int]


@with_config(_EXACT)
class ExchangeType(TypedDict):
    """A type of exchanges."""

    name: str
    description: str
    enabled: bool


@with_config(_EXACT)
class ObjectTotals(TypedDict):
    """Objects that the caller sees."""

    channels: int
    connections: int
    consumers: int
    exchanges: int
    queues: int


@with_config(_LISTED)
class OverviewItem(TypedDict):
    """Versions and totals."""

    management_version: str
    rabbitmq_version: str
    product_name: str
    product_version: str
    release_series_support_status: str
    cluster_name: str
    node: str
    erlang_version: str
    erlang_full_version: str
    rates_mode: str
    sample_retention_policies: dict[str, list[int]]
    exchange_types: list[ExchangeType]
    message_stats: MessageStats
    churn_rates: dict[str, JsonValue]
    queue_totals: MessageTotals
    object_totals: ObjectTotals
    statistics_db_event_queue: int
    listeners: list[dict[str, JsonValue]]
    contexts: list[dict[str, JsonValue]]
    disable_stats: bool
    enable_queue_totals: bool
    topology_version: int


@with_config(_EXACT)
class NameItem(TypedDict):
    """A name."""

    name: str


@with_config(_EXACT)
class ExtensionItem(TypedDict):
    """An extension of the broker's user interface."""

    javascript: str


@with_config(_LISTED)
class Health(TypedDict, total=False):
    """A check that holds, with what it looked at."""

    status: Literal["ok"]
    port: int
    protocol: str


@with_config(_EXACT)
class Alive(TypedDict):
    """The service answers, and can work where that was asked."""

    status: Literal["ok"]


@with_config(_EXACT)
class Unready(TypedDict):
    """The service cannot work."""

    status: Literal["unavailable"]


@with_config(_EXACT)
class Routed(TypedDict):
    """Whether a published message reached a queue."""

    routed: bool


@with_config(_EXACT)
class GotMessage(TypedDict):
    """A message of a queue; no properties are an empty list."""

    payload_bytes: int
    redelivered: bool
    exchange: str
    routing_key: str
    message_count: int
    properties: dict[str, JsonValue] | list[JsonValue]
    payload: str
    payload_encoding: Literal["string", "base64"]


@with_config(_EXACT)
class Counted(TypedDict):
    """How many messages there are; `waiting` of them are in a journal, and not yet in the table of the queue."""

    messages: int
    waiting: int


@with_config(_EXACT)
class Deleted(TypedDict):
    """How many messages were deleted."""

    deleted: int


@with_config(_EXACT)
class Moved(TypedDict):
    """How a move went: messages moved, copies by queue, and those that stayed.

    A queue's filter refused them, or they reach no queue through the exchange, by reason. `finished` counts those of
    earlier moves and copies that were interrupted.
    """

    moved: int
    queues: dict[str, int]
    refused: int
    unroutable: dict[str, int]
    finished: int
    batches: list[str]


@with_config(_EXACT)
class BackfilledStream(TypedDict):
    """What the journal of a stream gave: messages looked at, rows for the queue, when its first row was routed."""

    stream: str
    messages: int
    rows: int
    journal_from: str | None


@with_config(_EXACT)
class BatchUnderWay(TypedDict):
    """A batch that had begun by an older topology and not ended; maintenance brings what is in it."""

    stream: str
    batch_id: int
    topology_version: int


@with_config(_EXACT)
class Backfilled(TypedDict):
    """How a backfill went: the rows, when the first and the last were routed, and by the streams' journals.

    `finished` counts those of earlier backfills of the queue that were interrupted.
    """

    queue: str
    topology_version: int
    rows: int
    first: str | None
    last: str | None
    streams: list[BackfilledStream]
    under_way: list[BatchUnderWay]
    finished: int


@with_config(_EXACT)
class Rebuilt(TypedDict):
    """How a rebuild went; `was` is "whole", "lost" (the table) or "files" (some files of it).

    The rows, in all, when the first and the last were routed, and by the streams whose journals had them. Rows that
    nothing has any more are `not_covered`, by the stream that had brought them. `again`: of lost files, rows that
    somebody had taken before; null where that is not known. `aside` is where the old table is, for administrators.
    """

    queue: str
    was: Literal["whole", "lost", "files"]
    files: list[str]
    rows: int
    first: str | None
    last: str | None
    streams: dict[str, int]
    not_covered: dict[str, int]
    again: int | None
    under_way: list[str]
    aside: str | None


@with_config(_EXACT)
class Copied(TypedDict):
    """How a copy went: as with a move."""

    copied: int
    queues: dict[str, int]
    refused: int
    unroutable: dict[str, int]
    finished: int
    batches: list[str]


@with_config(_LISTED)
class Ingested(TypedDict, total=False):
    """Records that were stored, and the version of the inbox that holds them; no version without records."""

    records: int
    version: int


@with_config(_LISTED)
class Capabilities(TypedDict, total=False):
    """Capabilities; those of the service with the filters that each stands for."""

    capabilities: list[str]
    filters: dict[str, list[str]]


@with_config(_EXACT)
class Explained(TypedDict):
    """What became of each message of a dry run; of a record that never was a message, what is wrong with it.

    `message` is that of a row or of a text, in its JSON form; a body of more than 64 KiB is left out.
    """

    topology_version: int
    proposed: bool
    results: list[dict[str, JsonValue]]
    message: NotRequired[dict[str, JsonValue]]
    suggestions: NotRequired[dict[str, JsonValue]]
    refused: NotRequired[dict[str, JsonValue]]


@with_config(_EXACT)
class FoundMessage(TypedDict):
    """A message on record: its row, and the queue that it stands in or why it reached none.

    `journal` is the stream whose journal alone has it any more; then `reached` are the queues that it had reached.
    """

    row: str
    queue: str | None
    journal: str | None
    reached: list[str]
    reason: str | None
    routed_at: str
    body_bytes: int | None
    message: dict[str, JsonValue]


@with_config(_EXACT)
class FoundMessages(TypedDict):
    """What a search has found so far; `on` leads on, and is null at the end."""

    messages: list[FoundMessage]
    looked_at: int
    on: str | None


@with_config(_EXACT)
class Versions(TypedDict):
    """Versions of the topology, newest first; no version before `looked_back_to` was looked at."""

    newest: int
    looked_back_to: int
    versions: list[dict[str, JsonValue]]


@with_config(_EXACT)
class Planned(TypedDict):
    """What a document would change, and what of it has no effect."""

    base: int
    total: int
    counts: dict[str, dict[str, int]]
    offset: int
    changes: list[dict[str, JsonValue]]
    emptied: list[dict[str, str]]
    messages: list[dict[str, JsonValue]]
    without_effect: list[dict[str, JsonValue]]
    ignored: list[dict[str, JsonValue]]


@with_config(_EXACT)
class Applied(TypedDict):
    """The version that holds a change, and whether it is a new one."""

    version: int
    changed: bool


@with_config(_EXACT)
class CanaryChanged(TypedDict):
    """A canary, the version of the topology that says so, and whether this request made it."""

    topology_version: int
    changed: bool
    canary: dict[str, JsonValue]


@with_config(_EXACT)
class CanaryShown(TypedDict):
    """A canary, what it changes, and what streams have counted for it."""

    topology_version: int
    canary: dict[str, JsonValue]
    change: dict[str, JsonValue]
    comparison: dict[str, JsonValue]


@with_config(_EXACT)
class Replayed(TypedDict):
    """What became of the newest messages, and what another topology would have done with them."""

    base: int
    vhost: str
    messages: int
    from_journals: int
    copies: dict[str, int]
    changed: dict[str, int]
    unroutable: dict[str, JsonValue]
    files: dict[str, int]
    unexplained_copies: int
    queues: list[dict[str, JsonValue]]
    batches: int
    streams: list[str]
    first_routed_at: str | None
    last_routed_at: str | None
    unread_queues: int
    cut: Literal["messages", "time", "batches"] | None


@with_config(_EXACT)
class LintMarks(TypedDict):
    """How many findings of each severity an exchange or a queue has."""

    kind: str
    vhost: str
    name: str
    severities: dict[str, int]


@with_config(_EXACT)
class StageProgress(TypedDict):
    """What a stage of a job's batches took."""

    seconds: float
    batches: int


@with_config(_EXACT)
class ForwardPosition(TypedDict):
    """What a forwarder sends next: a file of a version of the queue's table; since `moved_at` (ms since 1970)."""

    table_id: str
    version: int
    file: int
    snapshot: bool
    moved_at: int


@with_config(_EXACT)
class UnparsableBodies(TypedDict):
    """Messages whose bodies the filters of an exchange or queue (`kind`) could not read, and why."""

    kind: str
    vhost: str
    name: str
    reason: str
    messages: int


@with_config(_EXACT)
class JobProgress(TypedDict):
    """What a job has done since its stream began; of a forwarder the rows before its position, and that."""

    batches: int
    records: int
    copies: int
    unroutable: dict[str, int]
    stages: dict[str, StageProgress]
    unparsable: list[UnparsableBodies]
    position: NotRequired[ForwardPosition | None]


@with_config(_LISTED)
class JobItem(TypedDict, total=False):
    """A submitted job; `document` for administrators, `run` once it was started. Times are in ms since 1970."""

    stream: str
    vhost: str
    state: str
    document: dict[str, JsonValue]
    submitted_by: str
    submitted_at: int
    lag: dict[str, JsonValue] | None
    waiting: dict[str, JsonValue] | None
    rows_per_second: float | None
    last_batch: dict[str, JsonValue] | None
    progress: JobProgress
    error: dict[str, JsonValue] | None
    run: dict[str, JsonValue]


@with_config(_LISTED)
class JobProblem(TypedDict, total=False):
    """What is wrong with a job document, and where in its text; the message begins with the key."""

    code: str
    message: str
    hint: str
    line: int
    column: int


@with_config(_EXACT)
class JobCheck(TypedDict):
    """What keeps a job from being submitted, nothing when it could be; its document, null where the text is none."""

    errors: list[JobProblem]
    document: dict[str, JsonValue] | None


@with_config(_EXACT)
class JobLog(TypedDict):
    """Lines of a run's log, the byte of it behind them, and the numbers of the runs whose logs there are."""

    run: int
    lines: list[str]
    end: int
    runs: list[int]


#: Documents that are described on pages of their own, and lists of things that there never are.
Document = dict[str, JsonValue]
Nothing = paged(Document)
