"""The service as a whole: overview, nodes, health, and what a broker has that this is not."""

from __future__ import annotations

import os
import platform
import re
import shutil
import ssl
import time
from collections import Counter
from datetime import UTC, datetime
from typing import Annotated, Final

from fastapi import Path, Query, Request, Response

from bindery import __version__
from bindery.api.answers import answer, no_content, put_answer
from bindery.api.bodies import Body, documented
from bindery.api.control_plane import NEWEST_BATCHES, ControlPlane
from bindery.api.counts import Held
from bindery.api.deps import (
    AdministratorUser,
    ManagementUser,
    MonitoringUser,
    NamePath,
    Plane,
    VhostHeader,
    VhostPath,
    json_body,
    resource,
)
from bindery.api.errors import Refusal, bad_request, object_not_found
from bindery.api.items import Document, ExtensionItem, Health, NameItem, Nothing, OverviewItem
from bindery.api.listing import Item, ListingParameters
from bindery.api.routes.vhosts import message_totals
from bindery.api.scope import visible_vhost, visible_vhosts
from bindery.api.statistics import with_rates
from bindery.router.model import EXCHANGE_TYPES, Setting
from bindery.router.model.objects import GLOBAL_PARAMETER
from bindery.router.moments import iso
from bindery.store import overview as streams

router = resource("overview")

#: The version of the broker whose answers these are; clients decide by it what they can ask for.
RABBITMQ_VERSION: Final = "3.10.8"
PRODUCT: Final = "Bindery"
_CHURN: Final = (
    "connection_created",
    "connection_closed",
    "channel_created",
    "channel_closed",
    "queue_created",
    "queue_declared",
    "queue_deleted",
)
_IO: Final = (
    "io_read_count",
    "io_read_bytes",
    "io_read_avg_time",
    "io_write_count",
    "io_write_bytes",
    "io_write_avg_time",
    "io_sync_count",
    "io_sync_avg_time",
    "io_seek_count",
    "io_seek_avg_time",
    "io_reopen_count",
    "mnesia_ram_tx_count",
    "mnesia_disk_tx_count",
    "msg_store_read_count",
    "msg_store_write_count",
    "queue_index_read_count",
    "queue_index_write_count",
    "gc_num",
    "gc_bytes_reclaimed",
    "context_switches",
)
_QUEUE_LENGTHS: Final = (
    "connection_closed",
    "channel_closed",
    "consumer_deleted",
    "exchange_deleted",
    "queue_deleted",
    "vhost_deleted",
    "node_node_deleted",
    "channel_consumer_deleted",
)
_STARTED: Final = time.monotonic()
_STANDARD: Final = "AMQP {} exchange, as per the AMQP specification"
#: Of the types that plugins bring.
_DESCRIPTIONS: Final = {
    "x-consistent-hash": "Consistent Hashing Exchange",
    "x-modulus-hash": "Modulus Hashing Exchange",
}
_CLUSTER_NAME: Final = "cluster_name"


OneStream = Annotated[str | None, Query(description="this stream alone")]
Batches = Annotated[
    int, Query(description="how many of its newest batches are told of each stream", ge=0, le=NEWEST_BATCHES)
]


class ClusterNameBody(Body):
    """The name of the cluster."""

    name: str


def exchange_types() -> list[Item]:
    """The exchange types that there are."""
    return [
        {"name": name, "description": _DESCRIPTIONS.get(name, _STANDARD.format(name)), "enabled": True}
        for name in EXCHANGE_TYPES
    ]


def cluster_name(plane: ControlPlane) -> str:
    """The name that was set, or that of the settings."""
    setting = plane.topology().settings.get((GLOBAL_PARAMETER, "", _CLUSTER_NAME))
    return plane.settings.cluster_name if setting is None else str(setting.value)


def _contexts(plane: ControlPlane) -> list[Item]:
    return [
        {
            "description": "Bindery control plane",
            "path": "/",
            "ip": plane.settings.host,
            "port": str(plane.settings.port),
            "node": plane.node,
            "cowboy_opts": "[]",
            "ssl_opts": [],
        }
    ]


@router.get("/overview", summary="Overview", response_model=OverviewItem)
def overview(plane: Plane, user: ManagementUser, listing: ListingParameters) -> Response:
    """Versions and totals over every vhost that the caller sees."""
    topology = plane.topology()
    vhosts = set(visible_vhosts(topology, user))
    exchanges, queues = (sum(counted[vhost] for vhost in vhosts) for counted in plane.sizes(topology))
    held = plane.counts.messages_in(topology) if listing.wants({"queue_totals"}) else Counter[str]()
    totals = message_totals(sum(held[vhost] for vhost in vhosts)) if queues and held else {}
    address = {"ip": plane.settings.host, "port": plane.settings.port}
    listener = {"ip_address": plane.settings.host, "node": plane.node, "port": plane.settings.port}
    return answer(
        listing.cut(
            {
                "management_version": RABBITMQ_VERSION,
                "rabbitmq_version": RABBITMQ_VERSION,
                "product_name": PRODUCT,
                "product_version": __version__,
                "release_series_support_status": "supported",
                "cluster_name": cluster_name(plane),
                "node": plane.node,
                "erlang_version": f"Python {platform.python_version()}",
                "erlang_full_version": f"{platform.python_implementation()} {platform.python_version()}",
                "rates_mode": "none",
                "sample_retention_policies": {"global": [600], "basic": [600], "detailed": [600]},
                "exchange_types": exchange_types(),
                "message_stats": plane.statistics.of_all(),
                "churn_rates": with_rates(dict.fromkeys(_CHURN, 0)),
                "queue_totals": totals,
                "object_totals": {
                    "channels": 0,
                    "connections": 0,
                    "consumers": 0,
                    "exchanges": exchanges,
                    "queues": queues,
                },
                "statistics_db_event_queue": 0,
                "listeners": [
                    {
                        **listener,
                        "protocol": "https" if plane.settings.is_tls else "http",
                        "socket_opts": {**address, "cowboy_opts": {"sendfile": False}},
                    }
                ],
                "contexts": _contexts(plane),
                "disable_stats": False,
                "enable_queue_totals": False,
                "topology_version": topology.version,
            }
        )
    )


@router.get("/status", summary="Show the streams", response_model=Document)
def status(plane: Plane, _: MonitoringUser, stream: OneStream = None, batches: Batches = 0) -> Response:
    """How each stream stands: what it did, its last batch by stage, its lag, and what is wrong, in sentences.

    As `bindery status` says it; `held` is what all queues hold together, and when one of them changed last. `batches`
    adds `newest` to each stream: so many of its newest batches, the last first.
    """
    topology = plane.topology()
    found = streams.overview(plane.data, topology, plane.totals.totals(), plane.newest, plane.journals)
    shown = found.as_data(datetime.now(UTC))
    if batches:
        for item, state in zip(shown["streams"], found.streams, strict=True):
            item["newest"] = [one.as_data() for one in state.newest[:batches]]
    held = sum(plane.counts.held_in(topology).values(), Held())
    shown["held"] = {
        "messages": held.messages,
        "waiting": held.waiting,
        "bytes": held.size,
        "changed_at": iso(datetime.fromtimestamp(held.changed, UTC)) if held.changed else None,
    }
    shown["streams"] = [item for item in shown["streams"] if stream in (None, item["stream"])]
    return answer(shown)


@router.get("/cluster-name", summary="Show the cluster name", response_model=NameItem)
def show_cluster_name(plane: Plane, _: ManagementUser) -> Response:
    """The name that clients show."""
    return answer({"name": cluster_name(plane)})


@router.put(
    "/cluster-name",
    status_code=204,
    summary="Set the cluster name",
    openapi_extra=documented(ClusterNameBody, {"name": "orders"}),
)
async def put_cluster_name(
    plane: Plane, user: AdministratorUser, body: Annotated[ClusterNameBody, json_body(ClusterNameBody)]
) -> Response:
    """Set the name that clients show; kept as a global parameter, as in the broker."""
    setting = Setting(GLOBAL_PARAMETER, "", _CLUSTER_NAME, body.name)
    await plane.change(lambda editor: editor.put_setting(setting), author=user.name)
    return put_answer(created=False)


@router.get("/extensions", summary="List extensions", response_model=list[ExtensionItem])
def extensions(_: ManagementUser) -> Response:
    """Extensions of the broker's user interface; the dispatcher is the only one that every broker has."""
    return answer([{"javascript": "dispatcher.js"}])


def _node(plane: ControlPlane) -> Item:
    disk = shutil.disk_usage(plane.data.root)
    pages, page = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    measured = {
        "disk_free": disk.free,
        "mem_used": _resident_bytes(),
        "fd_used": 0,
        "proc_used": 1,
        "sockets_used": 0,
    }
    return {
        "name": plane.node,
        "type": "disc",
        "running": True,
        "being_drained": False,
        "os_pid": str(os.getpid()),
        "uptime": int((time.monotonic() - _STARTED) * 1000),
        "processors": os.cpu_count() or 1,
        "run_queue": 0,
        "rates_mode": "none",
        "db_dir": plane.data.root,
        "config_files": [],
        "log_files": ["stderr"],
        "applications": [{"name": "bindery", "description": "message routing", "version": __version__}],
        "auth_mechanisms": [{"name": "BASIC", "description": "HTTP basic authentication", "enabled": True}],
        "exchange_types": exchange_types(),
        "enabled_plugins": ["rabbitmq_management"],
        "contexts": _contexts(plane),
        "cluster_links": [],
        "partitions": [],
        "net_ticktime": 60,
        "mem_limit": pages * page,
        "mem_alarm": False,
        "mem_calculation_strategy": "rss",
        "disk_free_limit": 0,
        "disk_free_alarm": False,
        "fd_total": os.sysconf("SC_OPEN_MAX"),
        "proc_total": 1,
        "sockets_total": 0,
        "ra_open_file_metrics": {"ra_log_wal": 0, "ra_log_segment_writer": 0},
        "metrics_gc_queue_length": dict.fromkeys(_QUEUE_LENGTHS, 0),
        **with_rates(measured),
        **with_rates(dict.fromkeys((*_CHURN, *_IO), 0)),
    }


def _resident_bytes() -> int:
    """Memory of this process; its peak where the system does not tell what it is now."""
    try:
        with open("/proc/self/statm", encoding="ascii") as statm:  # noqa: PTH123  # a file of the kernel
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        import resource  # noqa: PLC0415  # not on every system

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@router.get("/nodes", summary="List nodes", response_model=list[Document])
def nodes(plane: Plane, _: MonitoringUser, listing: ListingParameters) -> Response:
    """This process, in the fields of a broker node; what it does not have reads 0."""
    return answer(listing.whole([_node(plane)], order=("name",)))


@router.get("/nodes/{name:segment}", summary="Show a node", response_model=Document)
def node(plane: Plane, _: MonitoringUser, listing: ListingParameters, name: NamePath) -> Response:
    """This process, by its node name."""
    if name != plane.node:
        raise object_not_found()
    return answer(listing.one(_node(plane)))


def _nothing(path: str, what: str) -> None:
    """A list that is always empty: nothing connects to this service but HTTP clients."""

    def empty(plane: Plane, user: ManagementUser, listing: ListingParameters, x_vhost: VhostHeader = None) -> Response:
        """Always empty; there are none here."""
        visible_vhosts(plane.topology(), user, x_vhost)
        return answer(listing.paged([]))

    def empty_in_vhost(plane: Plane, user: ManagementUser, listing: ListingParameters, vhost: VhostPath) -> Response:
        """Always empty; there are none here."""
        visible_vhost(plane.topology(), user, vhost)
        return answer(listing.paged([]))

    endpoint = empty_in_vhost if "{vhost" in path else empty
    operation = f"list_{what.replace(' ', '_')}"
    router.get(path, summary=f"List {what}", response_model=Nothing, operation_id=operation, tags=["connections"])(
        endpoint
    )


def _nobody(path: str) -> None:
    """A single one of them: there never is one."""

    @router.api_route(path, methods=["GET", "DELETE"], include_in_schema=False)
    def absent(_: ManagementUser, name: NamePath) -> Response:
        raise object_not_found()


for _path, _what in {
    "/connections": "connections",
    "/channels": "channels",
    "/consumers": "consumers",
    "/consumers/{vhost:segment}": "consumers of a vhost",
    "/vhosts/{vhost:segment}/connections": "connections of a vhost",
    "/vhosts/{vhost:segment}/channels": "channels of a vhost",
    "/federation-links": "federation links",
    "/federation-links/{vhost:segment}": "federation links of a vhost",
    "/shovels": "shovels",
    "/shovels/{vhost:segment}": "shovels of a vhost",
    "/stream/connections": "stream connections",
    "/stream/connections/{vhost:segment}": "stream connections of a vhost",
    "/stream/consumers": "stream consumers",
    "/stream/consumers/{vhost:segment}": "stream consumers of a vhost",
    "/stream/publishers": "stream publishers",
    "/stream/publishers/{vhost:segment}": "stream publishers of a vhost",
}.items():
    _nothing(_path, _what)
for _what in ("connections", "channels"):
    _nobody(f"/{_what}/{{name:segment}}")


@router.get(
    "/connections/username/{name:segment}",
    summary="List connections of a user",
    response_model=Nothing,
    tags=["connections"],
)
def connections_of_user(_: ManagementUser, listing: ListingParameters, name: NamePath) -> Response:
    """Always empty; there are none here."""
    return answer(listing.whole([]))


@router.delete(
    "/connections/username/{name:segment}", status_code=204, summary="Close connections of a user", tags=["connections"]
)
def close_connections_of_user(_: ManagementUser, name: NamePath) -> Response:
    """Does nothing: there are none here."""
    return no_content()


@router.post("/rebalance/queues", status_code=204, summary="Rebalance queues")
def rebalance(_: AdministratorUser) -> Response:
    """Does nothing: there is one node, which leads every queue."""
    return no_content()


#: Checks that clients ask for; what each one checks in a broker cannot fail here, but for the data directory.
CHECKS: Final = frozenset(
    {
        "alarms",
        "local-alarms",
        "virtual-hosts",
        "node-is-mirror-sync-critical",
        "node-is-quorum-critical",
        "ready-to-serve-clients",
        "is-in-service",
        "below-node-connection-limit",
    }
)


@router.get("/health/checks/{check:segment}", summary="Health check", response_model=Health)
def health(
    plane: Plane, _: ManagementUser, check: Annotated[str, Path(description="name of a check", examples=["alarms"])]
) -> Response:
    """Whether the topology can be read; an error when it cannot."""
    if check not in CHECKS:
        raise object_not_found()
    plane.topology()
    return answer({"status": "ok"})


#: Units of the certificate check, in days.
_DAYS: Final = {"days": 1, "weeks": 7, "months": 30, "years": 365}
#: The validity of an X.509 certificate: two times of ASN.1 (RFC 5280 §4.1.2.5), of which the second is the end.
_VALIDITY: Final = re.compile(rb"[\x17\x18][\x0d\x0f]\d{12,14}Z[\x17\x18][\x0d\x0f](\d{12,14})Z")


def certificate_end(pem: str) -> float:
    """When the first certificate of a PEM file ends, in seconds since 1970."""
    start, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    first = start + pem.partition(start)[2].partition(end)[0] + end
    found = _VALIDITY.search(ssl.PEM_cert_to_DER_cert(first))
    if found is None:
        raise Refusal(503, "service_unavailable", "the certificate has no validity")
    text = found[1].decode()
    if len(text) == 12:  # UTCTime: years from 50 are of the twentieth century
        text = ("19" if text[:2] >= "50" else "20") + text
    return datetime.strptime(text, "%Y%m%d%H%M%S").replace(tzinfo=UTC).timestamp()


@router.get("/health/checks/port-listener/{port:segment}", summary="Health check of a listener", response_model=Health)
def port_listener(
    _: ManagementUser, request: Request, port: Annotated[str, Path(description="a port number", examples=["15672"])]
) -> Response:
    """Whether the service listens on that port."""
    listening = (request.scope.get("server") or ("", 0))[1]
    if not (port.isascii() and port.isdecimal() and len(port) < 10):
        raise bad_request("Invalid port")
    if int(port) != listening:
        missing = {"status": "failed", "missing": int(port), "ports": [listening]}
        raise Refusal(503, "service_unavailable", "No active listener", more=missing)
    return answer({"status": "ok", "port": listening})


@router.get(
    "/health/checks/protocol-listener/{protocol:segment}", summary="Health check of a protocol", response_model=Health
)
def protocol_listener(
    plane: Plane, _: ManagementUser, protocol: Annotated[str, Path(description="http or https", examples=["http"])]
) -> Response:
    """Whether the service speaks that protocol: http, or https with TLS."""
    spoken = "https" if plane.settings.is_tls else "http"
    if protocol != spoken:
        missing = {"status": "failed", "missing": protocol, "protocols": [spoken]}
        raise Refusal(503, "service_unavailable", "No active listener", more=missing)
    return answer({"status": "ok", "protocol": spoken})


@router.get(
    "/health/checks/certificate-expiration/{within:segment}/{unit:segment}",
    summary="Health check of the certificate",
    response_model=Health,
)
def certificate_expiration(
    plane: Plane,
    _: ManagementUser,
    within: Annotated[str, Path(description="a number", examples=["4"])],
    unit: Annotated[str, Path(description="days, weeks, months or years", examples=["weeks"])],
) -> Response:
    """Whether the certificate that the service answers with, if any, is valid for that long."""
    days = _DAYS.get(unit)
    if days is None:
        raise bad_request(f"Time unit not recognised. Supported units: {', '.join(_DAYS)}.")
    if not (within.isascii() and within.isdecimal() and len(within) < 6):
        raise bad_request("Invalid expiration value.")
    certificate = plane.settings.ssl_certfile
    if certificate is not None:
        ends = certificate_end(certificate.read_text())
        if ends < time.time() + int(within) * days * 86_400:
            missing = {"status": "failed", "expires": ends}
            raise Refusal(503, "service_unavailable", "Certificates expiring", more=missing)
    return answer({"status": "ok"})


@router.get("/aliveness-test/{vhost:segment}", summary="Aliveness test", response_model=Health)
def aliveness(plane: Plane, user: ManagementUser, vhost: VhostPath) -> Response:
    """Whether the vhost can be read; no test queue is left behind."""
    visible_vhost(plane.topology(), user, vhost)
    return answer({"status": "ok"})


@router.get(
    "/feature-flags", summary="List feature flags", response_model=list[Document], operation_id="list_feature_flags"
)
@router.get(
    "/deprecated-features",
    summary="List deprecated features",
    response_model=list[Document],
    operation_id="list_deprecated_features",
)
@router.get(
    "/deprecated-features/used",
    summary="List deprecated features in use",
    response_model=list[Document],
    operation_id="list_used_features",
)
def no_features(_: MonitoringUser) -> Response:
    """There are none."""
    return answer([])
