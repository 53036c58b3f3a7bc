"""What `activemq.xml` may hold beside destinations and interceptors, and what becomes of it here.

Names are those of activemq-core.xsd (5.18, and later ones); tables of values map a name to the values that ask for
nothing and to what is different.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bindery.router.importers.objects import NO_CONSUMERS, NO_RETRIES

FORWARD: Final = "`bindery forward` hands a queue on to a Kafka topic; a job reads a queue and feeds an exchange"
ACCESS: Final = "permissions of users say who may what (`bindery serve`)"
_NO_PLUGIN: Final = "plugins of the broker do not run here"
_STAYS: Final = "what is in a queue stays when the service is started again"
_BACKFILL: Final = "`bindery backfill` brings earlier messages to a new queue"
_NO_GROUPS: Final = "messages are not grouped for consumers"

#: Attributes of `broker` that somebody would notice -> (values that ask for nothing, what is different).
BROKER: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "persistent": (("true",), _STAYS),
    "deleteAllMessagesOnStartup": (("false",), _STAYS),
    "schedulerSupport": (("false",), "messages are not delayed: AMQ_SCHEDULED_DELAY is a property"),
    "populateJMSXUserID": (("false",), "nobody writes the user into messages: publish it as `user_id`"),
    "rejectDurableConsumers": (("false",), NO_CONSUMERS),
    "offlineDurableSubscriberTimeout": (("-1",), "a queue stays, however long nobody reads it"),
    "anonymousProducerAdvisorySupport": (("false",), "no advisory messages are sent"),
}
#: Parts of `broker` that hold one kind of object which is no part of a topology -> what to do.
PARTS: Final[Mapping[str, str]] = {
    "networkConnectors": FORWARD,
    "networkConnectorURIs": FORWARD,
    "jmsBridgeConnectors": FORWARD,
    "proxyConnectors": "clients come by HTTP, Kafka, files and tables",
    "messageAuthorizationPolicy": ACCESS,
}
#: Parts of `broker` by which it runs.
IDLE_PARTS: Final = frozenset(
    {
        *("adminView", "brokerContext", "brokerObjectName", "consumerSystemUsage", "dataDirectoryFile"),
        *("destinationFactory", "ioExceptionHandler", "jobSchedulerStore", "managementContext", "persistenceAdapter"),
        *("persistenceFactory", "persistenceTaskRunnerFactory", "producerSystemUsage", "schedulerDirectoryFile"),
        *("regionBroker", "services", "shutdownHooks", "sslContext", "systemUsage", "taskRunnerFactory"),
        *("tempDataStore", "tmpDataDirectory", "transportConnectorURIs", "transportConnectors", "vmConnectorURI"),
        *("startException", "property"),
    }
)
#: Attributes of `broker` by which it runs, or that are read.
BROKER_IDLE: Final = frozenset(
    {
        *("adjustUsageLimits", "advisorySupport", "allowTempAutoCreationOnSend", "brokerId", "brokerName", "id"),
        *("cacheTempDestinations", "consumerSystemUsagePortion", "dataDirectory", "dedicatedTaskRunner", "start"),
        *("diskUsageCheckRegrowThreshold", "enableMessageExpirationOnActiveDurableSubs", "enableStatistics"),
        *("keepDurableSubsActive", "maxPurgedDestinationsPerSweep", "maxSchedulerRepeatAllowed", "startAsync"),
        *("mbeanInvocationTimeout", "monitorConnectionSplits", "networkConnectorStartAsync", "passiveSlave"),
        *("offlineDurableSubscriberTaskSchedule", "persistenceThreadPriority", "populateUserNameInMBeans"),
        *("producerSystemUsagePortion", "restartAllowed", "rollbackOnlyOnAsyncException", "storeOpenWireVersion"),
        *("schedulePeriodForDestinationPurge", "schedulePeriodForDiskUsageCheck", "schedulerDirectory"),
        *("shutdownOnMasterFailure", "shutdownOnSlaveFailure", "splitSystemUsageForProducersConsumers"),
        *("systemExitOnShutdown", "systemExitOnShutdownExitCode", "taskRunnerPriority", "useJmx"),
        *("timeBeforePurgeTempDestinations", "useAuthenticatedPrincipalForJMSXUserID", "useLocalHostBrokerName"),
        *("useLoggingForShutdownErrors", "useShutdownHook", "useTempMirroredQueues", "waitForSlave"),
        *("useVirtualDestSubs", "useVirtualDestSubsOnCreation", "waitForSlaveTimeout", "masterConnectorURI"),
        *("useVirtualTopics", "useMirroredQueues", "maxUncommittedCount"),
        *("maxUncommittedExceededErrorStrategy", "vmConnectorURI", "destroy-method"),
    }
)
#: Plugins with nothing to be missed.
IDLE_PLUGINS: Final[Mapping[str, str]] = {
    "forcePersistencyModeBrokerPlugin": "every message is stored",
    "loggingBrokerPlugin": "the service writes its own log",
    "statisticsBrokerPlugin": "counts of queues come from the service",
    "runtimeConfigurationPlugin": "a topology is changed while it runs, with its history",
    **dict.fromkeys(
        (
            *("connectionDotFilePlugin", "destinationDotFilePlugin", "multicastTraceBrokerPlugin"),
            *("traceBrokerPathPlugin", "udpTraceBrokerPlugin", "destinationsPlugin"),
        ),
        "it changes no message's way",
    ),
}
#: Plugins that are left out -> what to do.
PLUGINS: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            *("simpleAuthenticationPlugin", "jaasAuthenticationPlugin", "jaasCertificateAuthenticationPlugin"),
            *("jaasDualAuthenticationPlugin", "shiroPlugin"),
        ),
        "users are those of the service (`bindery serve`)",
    ),
    "authorizationPlugin": ACCESS,
    "camelRoutesBrokerPlugin": "write its routes as bindings, diverts and jobs",
    "partitionBrokerPlugin": "there is one service",
}
#: Plugins of which something is missed -> what.
PLUGINS_DIFFERENT: Final[Mapping[str, str]] = {
    "redeliveryPlugin": NO_RETRIES,
    "virtualSelectorCacheBrokerPlugin": "selectors of consumers are no part of the file",
    "destinationPathSeparatorPlugin": "names of destinations have full stops here: publish to a.b, not to a/b",
}
NO_PLUGIN: Final = _NO_PLUGIN
COMPOSITE: Final = frozenset(
    {"name", "id", "forwardTo", "forwardOnly", "copyMessage", "concurrentSend", "sendWhenNotMatched"}
)
FILTERED: Final = frozenset({"selector", "queue", "topic", "destination", "id"})
VIRTUAL_TOPIC: Final = frozenset({"name", "id", "prefix", "postfix", "selectorAware"})
VIRTUAL_TOPIC_IDLE: Final[Mapping[str, str]] = {
    "local": "messages come from no network of brokers",
    "concurrentSend": "how copies are made",
    "transactedSend": "how copies are made",
    "dropOnResourceLimit": "tables have no limits of memory",
    "setOriginalDestination": "a message keeps the exchange and key that it was published with",
}
#: Keys of policies that somebody would notice -> (values that ask for nothing, what is different).
POLICY: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "prioritizedMessages": (("false",), "messages are kept in the order in which they were routed"),
    "alwaysRetroactive": (("false",), _BACKFILL),
    "subscriptionRecoveryPolicy": ((), _BACKFILL),
    "gcInactiveDestinations": (("false",), "a queue stays, however long nobody uses it"),
    "messageGroupMapFactory": ((), _NO_GROUPS),
    "messageGroupMapFactoryType": ((), _NO_GROUPS),
    "sendAdvisoryIfNoConsumers": (("false",), "what reaches no queue is a row of the unroutable table"),
    "messageInterceptorStrategy": ((), "a job's expressions change messages before they are routed"),
    "sendFailIfNoSpace": (("-1", "false"), "a job cannot refuse its records"),
    "maxDestinations": (("-1",), "nothing is created by publishing or reading"),
}
POLICY_READ: Final = frozenset({"queue", "topic", "tempQueue", "tempTopic", "destination", "deadLetterStrategy", "id"})
POLICY_IDLE: Final = frozenset(
    {
        *("advisoryForConsumed", "advisoryForDelivery", "advisoryForDiscardingMessages", "advisoryForDispatched"),
        *("advisoryForFastProducers", "advisoryForSlowConsumers", "advisoryWhenFull", "includeBodyForAdvisory"),
        *("allConsumersExclusiveByDefault", "blockedProducerWarningInterval", "consumersBeforeDispatchStarts"),
        *("cursorMemoryHighWaterMark", "dispatchPolicy", "doOptimzeMessageStorage", "durableTopicPrefetch"),
        *("enableAudit", "expireMessagesPeriod", "gcWithNetworkConsumers", "inactiveTimeoutBeforeGC"),
        *("inactiveTimoutBeforeGC", "lazyDispatch", "maxAuditDepth", "maxBrowsePageSize", "maxExpirePageSize"),
        *("maxPageSize", "maxProducersToAudit", "maxQueueAuditDepth", "memoryLimit", "messageEvictionStrategy"),
        *("minimumMessageSize", "networkBridgeFilterFactory", "optimizeMessageStoreInFlightLimit"),
        *("optimizedDispatch", "pendingDurableSubscriberPolicy", "pendingMessageLimitStrategy"),
        *("pendingQueuePolicy", "pendingSubscriberPolicy", "persistJMSRedelivered", "producerFlowControl"),
        *("queueBrowserPrefetch", "queuePrefetch", "reduceMemoryFootprint", "sendDuplicateFromStoreToDLQ"),
        *("sendFailIfNoSpaceAfterTimeout", "slowConsumerStrategy", "storeUsageHighWaterMark"),
        *("strictOrderDispatch", "timeBeforeDispatchStarts", "topicPrefetch", "useCache", "useConsumerPriority"),
        *("usePrefetchExtension", "useTopicSubscriptionInflightStats", "allowTempDestinationStealing"),
        *("advancedNetworkStatisticsEnabled", "advancedMessageStatisticsEnabled"),
    }
)
#: Keys of dead letter strategies: those that say where to, and those that change nothing here.
LETTERS: Final = frozenset(
    {
        *("deadLetterQueue", "queuePrefix", "queueSuffix", "useQueueForQueueMessages", "processExpired"),
        *("topicPrefix", "topicSuffix", "useQueueForTopicMessages", "destinationPerDurableSubscriber"),
        *("processNonPersistent", "enableAudit", "maxAuditDepth", "maxProducersToAudit", "expiration", "id"),
    }
)
#: Classes of Spring beans -> the element of activemq-core that is the same, where that is not the class's name.
BEANS: Final[Mapping[str, str]] = {"DiscardingDeadLetterStrategy": "discarding"}
