package bench;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.activemq.artemis.api.core.QueueConfiguration;
import org.apache.activemq.artemis.api.core.RoutingType;
import org.apache.activemq.artemis.api.core.SimpleString;
import org.apache.activemq.artemis.core.config.impl.ConfigurationImpl;
import org.apache.activemq.artemis.core.message.impl.CoreMessage;
import org.apache.activemq.artemis.core.persistence.StorageManager;
import org.apache.activemq.artemis.core.postoffice.PostOffice;
import org.apache.activemq.artemis.core.server.ActiveMQServer;
import org.apache.activemq.artemis.core.server.ActiveMQServers;
import org.apache.activemq.artemis.core.server.JournalType;
import org.apache.activemq.artemis.core.server.Queue;
import org.apache.activemq.artemis.core.settings.impl.AddressFullMessagePolicy;
import org.apache.activemq.artemis.core.settings.impl.AddressSettings;
import org.apache.activemq.artemis.core.transaction.impl.TransactionImpl;

/**
 * ActiveMQ Artemis in this process, published to by its post office, which is what its protocols call.
 *
 * <p>Artemis has addresses and no exchanges, and a queue stands at one address. So every binding has a queue of its own:
 * direct and topic exchanges are addresses below that of the exchange, those of a topic exchange with Artemis' wildcards;
 * criteria of headers are filters.
 */
final class Artemis implements Peer {

    private final boolean durable;
    private final Set<String> keyed;
    private final ActiveMQServer server;
    private final PostOffice office;
    private final StorageManager storage;
    private final List<Queue> queues = new ArrayList<>();

    Artemis(boolean durable, Workload workload, String place) throws Exception {
        this.durable = durable;
        keyed = workload.exchanges().stream()
                .filter(exchange -> exchange.type().equals("direct") || exchange.type().equals("topic"))
                .map(Workload.Exchange::name)
                .collect(Collectors.toSet());
        ConfigurationImpl configuration = new ConfigurationImpl();
        configuration.setPersistenceEnabled(durable).setSecurityEnabled(false).setJMXManagementEnabled(false);
        configuration.setJournalDirectory(place + "/journal").setBindingsDirectory(place + "/bindings");
        configuration.setPagingDirectory(place + "/paging").setLargeMessagesDirectory(place + "/large");
        configuration.setJournalType(JournalType.MAPPED).setGlobalMaxSize(-1).setMaxDiskUsage(-1);
        configuration.setMessageExpiryScanPeriod(-1);
        configuration.addAddressSetting(
                "#",
                new AddressSettings()
                        .setAddressFullMessagePolicy(AddressFullMessagePolicy.PAGE)
                        .setMaxSizeBytes(-1)
                        .setMaxSizeMessages(-1)
                        .setDefaultAddressRoutingType(RoutingType.MULTICAST));
        server = ActiveMQServers.newActiveMQServer(configuration, durable);
        server.start();
        office = server.getPostOffice();
        storage = server.getStorageManager();
        for (Workload.Binding binding : workload.bindings()) {
            QueueConfiguration queue = QueueConfiguration.of(binding.queue())
                    .setAddress(address(binding.exchange(), binding.key()))
                    .setRoutingType(RoutingType.MULTICAST)
                    .setDurable(durable);
            String filter = filter(binding);
            queues.add(server.createQueue(filter.isEmpty() ? queue : queue.setFilterString(filter)));
        }
    }

    private String address(String exchange, String key) {
        return keyed.contains(exchange) ? exchange + "." + key : exchange;
    }

    /** What a binding asks for of a message's properties, as one filter. */
    private static String filter(Workload.Binding binding) {
        String join = "any".equals(binding.criteria().get("x-match")) ? " OR " : " AND ";
        String criteria = binding.criteria().entrySet().stream()
                .filter(entry -> !entry.getKey().equals("x-match"))
                .map(entry -> entry.getKey() + " = "
                        + (entry.getValue() instanceof String text ? "'" + text + "'" : entry.getValue().toString()))
                .collect(Collectors.joining(join));
        if (criteria.isEmpty() || binding.selector().isEmpty()) {
            return criteria + binding.selector();
        }
        return "(" + criteria + ") AND (" + binding.selector() + ")";
    }

    @Override
    public String version() {
        return server.getVersion().getFullVersion();
    }

    @Override
    public Publisher publisher() {
        return new Publisher() {
            private TransactionImpl transaction;
            private int waiting;

            @Override
            public void publish(Workload.Message message) throws Exception {
                CoreMessage sent = new CoreMessage(storage.generateID(), message.body().length + 512);
                sent.setAddress(SimpleString.of(address(message.exchange(), message.key())));
                sent.setDurable(durable);
                for (Map.Entry<String, Object> property : message.properties().entrySet()) {
                    sent.putObjectProperty(property.getKey(), property.getValue());
                }
                sent.getBodyBuffer().writeBytes(message.body());
                if (!durable) {
                    office.route(sent, false);
                    return;
                }
                if (transaction == null) {
                    transaction = new TransactionImpl(storage);
                }
                office.route(sent, transaction, false);
                if (++waiting == BATCH) {
                    finish();
                }
            }

            @Override
            public void finish() throws Exception {
                if (transaction != null) {
                    transaction.commit();
                    storage.waitOnOperations();
                    transaction = null;
                    waiting = 0;
                }
            }
        };
    }

    @Override
    public Map<String, Long> counts() {
        Map<String, Long> found = new LinkedHashMap<>();
        for (Queue queue : queues) {
            queue.flushExecutor();
            found.put(queue.getName().toString(), queue.getMessageCount());
        }
        return found;
    }

    @Override
    public void empty() throws Exception {
        for (Queue queue : queues) {
            queue.deleteAllReferences(BATCH);
        }
    }

    @Override
    public void close() throws Exception {
        server.stop();
    }
}
