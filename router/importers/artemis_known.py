"""What `broker.xml` may hold beside addresses, queues and diverts, and what becomes of it here.

Names are those of artemis-configuration.xsd; tables of values map a name to the values that ask for nothing and to what
is different.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bindery.router.importers.objects import NO_CONSUMERS, NO_RETRIES

_NOT_CREATED: Final = "nothing is created by publishing or reading; declare it"
FORWARD: Final = "`bindery forward` hands a queue on to a Kafka topic; a job reads a queue and feeds an exchange"

#: Parts of `core` that are no topology and may be missed -> what to do.
PARTS: Final[Mapping[str, str]] = {
    "security-settings": "permissions of users say who may what (`bindery serve`)",
    "broker-plugins": "plugins of the broker do not run here",
    "remoting-incoming-interceptors": "a job's expressions change messages before they are routed",
    "remoting-outgoing-interceptors": "a job's expressions change messages before they are routed",
    "federations": FORWARD,
    "broker-connections": FORWARD,
    "connector-services": FORWARD,
    "resource-limit-settings": "limits of vhosts bound their queues",
    "grouping-handler": NO_CONSUMERS,
}
#: Parts of `core` that hold elements of one name.
HOLDERS: Final[Mapping[str, str]] = {
    "addresses": "address",
    "diverts": "divert",
    "queues": "queue",
    "address-settings": "address-setting",
}
#: Parts of `core` that say how the broker runs (artemis-configuration.xsd of 2.19, and later ones).
SETTINGS: Final = frozenset(
    {
        *("acceptors", "address-queue-scan-period", "amqp-use-core-subscription-naming"),
        *("async-connection-execution-enabled", "authentication-cache-size", "authorization-cache-size"),
        *("bindings-directory", "broadcast-groups", "broker-balancers", "broker-id", "cluster-connections"),
        *("cluster-password", "cluster-user", "configuration-file-refresh-period", "connection-routers"),
        *("connection-ttl-check-interval", "connection-ttl-override", "connectors", "create-bindings-dir"),
        *("create-journal-dir", "critical-analyzer", "critical-analyzer-check-period"),
        *("critical-analyzer-policy", "critical-analyzer-timeout", "discovery-groups", "disk-scan-period"),
        *("global-max-messages", "global-max-size", "graceful-shutdown-enabled", "graceful-shutdown-timeout"),
        *("ha-policy", "id-cache-size", "internal-naming-prefix", "jmx-domain", "jmx-management-enabled"),
        *("jmx-use-broker-name", "journal-buffer-size", "journal-buffer-timeout", "journal-compact-min-files"),
        *("journal-compact-percentage", "journal-datasync", "journal-device-block-size", "journal-directory"),
        *("journal-file-open-timeout", "journal-file-size", "journal-lock-acquisition-timeout", "journal-max-io"),
        *("journal-min-files", "journal-pool-files", "journal-retention-directory"),
        *("journal-sync-non-transactional", "journal-sync-transactional", "journal-type"),
        *("large-messages-directory", "lock-coordinators", "log-delegate-factory-class-name"),
        *("log-journal-write-rate", "management-address", "management-notification-address", "mask-password"),
        *("max-disk-usage", "memory-measure-interval", "memory-warning-threshold", "message-counter-enabled"),
        *("message-counter-max-day-history", "message-counter-sample-period", "message-expiry-scan-period"),
        *("message-expiry-thread-priority", "metrics", "metrics-plugin", "min-disk-free", "name"),
        *("network-check-NIC", "network-check-URL-list", "network-check-list", "network-check-period"),
        *("network-check-ping-command", "network-check-ping6-command", "network-check-timeout"),
        *("node-manager-lock-directory", "page-max-concurrent-io", "page-sync-timeout", "paging-directory"),
        *("password-codec", "persist-delivery-count-before-delivery", "persist-id-cache", "persistence-enabled"),
        *("populate-validated-user", "read-whole-page", "reject-empty-validated-user", "resolve-protocols"),
        *("scheduled-thread-pool-max-size", "security-enabled", "security-invalidation-interval"),
        *("server-dump-interval", "store", "system-property-prefix", "temporary-queue-namespace"),
        *("thread-pool-max-size", "transaction-timeout", "transaction-timeout-scan-period"),
        "wild-card-routing-enabled",
    }
)
#: Attributes of queues -> (values that ask for nothing, what is different).
QUEUE: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "max-consumers": (("-1",), NO_CONSUMERS),
    "purge-on-no-consumers": (("false",), "what is in a queue stays when nobody reads it"),
    "exclusive": (("false",), NO_CONSUMERS),
    "group-rebalance": (("false",), NO_CONSUMERS),
    "group-rebalance-pause-dispatch": (("false",), NO_CONSUMERS),
    "group-buckets": (("-1",), NO_CONSUMERS),
    "group-first-key": ((), NO_CONSUMERS),
    "consumers-before-dispatch": (("0",), NO_CONSUMERS),
    "delay-before-dispatch": (("-1",), NO_CONSUMERS),
    "durable": (("true",), "stays when the service is started again, as everything here does"),
}
QUEUE_IDLE: Final[Mapping[str, str]] = {
    "non-destructive": "readers of tables take nothing away",
    "user": "nobody owns a queue",
}
#: Keys of address settings that queues or exchanges take over.
TAKEN: Final = frozenset(
    {
        *("expiry-delay", "expiry-address", "dead-letter-address", "send-to-dla-on-no-route", "default-ring-size"),
        *("last-value-queue", "default-last-value-queue", "default-last-value-key"),
    }
)
SETTING: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    **dict.fromkeys(
        (
            *("redelivery-delay", "redelivery-delay-multiplier", "redelivery-collision-avoidance-factor"),
            *("max-redelivery-delay", "max-delivery-attempts"),
        ),
        ((), NO_RETRIES),
    ),
    **dict.fromkeys(
        (
            *("auto-create-queues", "auto-create-addresses", "auto-create-jms-queues", "auto-create-jms-topics"),
            *("auto-create-dead-letter-resources", "auto-create-expiry-resources"),
        ),
        (("false",), _NOT_CREATED),
    ),
    **dict.fromkeys(("min-expiry-delay", "max-expiry-delay"), (("-1",), "times to live are not changed")),
    **dict.fromkeys(
        ("default-purge-on-no-consumers", "default-exclusive-queue", "default-group-rebalance"),
        (("false",), NO_CONSUMERS),
    ),
    **dict.fromkeys(("default-max-consumers", "default-group-buckets"), (("-1",), NO_CONSUMERS)),
    "address-full-policy": (("PAGE",), "a job cannot refuse or drop its records, so that nothing bounds an address"),
    "slow-consumer-policy": (("NOTIFY",), NO_CONSUMERS),
    "retroactive-message-count": (("0",), "`bindery backfill` brings earlier messages to a new queue"),
    "enable-ingress-timestamp": (("false",), "rows say when they were routed"),
}
SETTING_IDLE: Final = frozenset(
    {
        *("max-size-bytes", "max-size-messages", "max-size-bytes-reject-threshold", "page-size-bytes"),
        *("page-max-cache-size", "page-limit-bytes", "page-limit-messages", "page-full-policy"),
        *("max-read-page-bytes", "max-read-page-messages", "prefetch-page-bytes", "prefetch-page-messages"),
        *("redistribution-delay", "message-counter-history-day-limit", "management-browse-page-size"),
        *("management-message-attribute-size-limit", "slow-consumer-threshold", "slow-consumer-check-period"),
        *("slow-consumer-threshold-measurement-unit", "default-consumer-window-size", "enable-metrics"),
        *("default-consumers-before-dispatch", "default-delay-before-dispatch", "default-non-destructive"),
        *("auto-delete-queues", "auto-delete-addresses", "auto-delete-jms-queues", "auto-delete-jms-topics"),
        *("auto-delete-created-queues", "auto-delete-queues-delay", "auto-delete-addresses-delay"),
        *("auto-delete-queues-message-count", "auto-delete-queues-skip-usage-check"),
        *("auto-delete-addresses-skip-usage-check", "config-delete-queues", "config-delete-addresses"),
        *("config-delete-diverts", "default-queue-routing-type", "default-address-routing-type"),
        *("dead-letter-queue-prefix", "dead-letter-queue-suffix", "expiry-queue-prefix", "expiry-queue-suffix"),
        *("default-group-first-key", "id-cache-size"),
    }
)
DIVERT: Final = frozenset(
    {
        *("name", "address", "forwarding-address", "filter", "exclusive", "routing-name", "routing-type"),
        *("transformer", "transformer-class-name"),
    }
)
