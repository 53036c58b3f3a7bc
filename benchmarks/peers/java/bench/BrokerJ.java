package bench;

import java.nio.file.Files;
import java.nio.file.Path;
import java.security.PrivilegedAction;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicReference;
import javax.security.auth.Subject;
import org.apache.qpid.server.SystemLauncher;
import org.apache.qpid.server.SystemLauncherListener;
import org.apache.qpid.server.bytebuffer.QpidByteBuffer;
import org.apache.qpid.server.message.InstanceProperties;
import org.apache.qpid.server.model.Broker;
import org.apache.qpid.server.model.ConfiguredObject;
import org.apache.qpid.server.model.Exchange;
import org.apache.qpid.server.model.Queue;
import org.apache.qpid.server.model.SystemConfig;
import org.apache.qpid.server.protocol.v0_8.AMQMessage;
import org.apache.qpid.server.protocol.v0_8.AMQShortString;
import org.apache.qpid.server.protocol.v0_8.FieldTable;
import org.apache.qpid.server.protocol.v0_8.MessageMetaData;
import org.apache.qpid.server.protocol.v0_8.transport.BasicContentHeaderProperties;
import org.apache.qpid.server.protocol.v0_8.transport.ContentHeaderBody;
import org.apache.qpid.server.protocol.v0_8.transport.MessagePublishInfo;
import org.apache.qpid.server.security.auth.TaskPrincipal;
import org.apache.qpid.server.store.MessageHandle;
import org.apache.qpid.server.store.MessageStore;
import org.apache.qpid.server.txn.AutoCommitTransaction;
import org.apache.qpid.server.txn.LocalTransaction;
import org.apache.qpid.server.txn.ServerTransaction;
import org.apache.qpid.server.virtualhost.QueueManagingVirtualHost;

/** Apache Qpid Broker-J in this process, published to by its exchanges, which is what its protocols call. */
final class BrokerJ implements Peer {

    private final boolean durable;
    private final SystemLauncher launcher;
    private final Subject system;
    private final String version;
    private final QueueManagingVirtualHost<?> host;
    private final MessageStore store;
    private final Map<String, Exchange<?>> exchanges = new HashMap<>();
    private final List<Queue<?>> queues = new ArrayList<>();

    BrokerJ(boolean durable, Workload workload, String place) throws Exception {
        this.durable = durable;
        Path configuration = Files.writeString(
                Path.of(place, "broker.json"), "{\"name\": \"bench\", \"modelVersion\": \"9.1\"}");
        AtomicReference<SystemConfig<?>> opened = new AtomicReference<>();
        launcher = new SystemLauncher(new SystemLauncherListener.DefaultSystemLauncherListener() {
            @Override
            public void onContainerResolve(SystemConfig<?> config) {
                opened.set(config);
            }
        });
        // in memory it is to stay there: what does not fit is written to a disk otherwise
        Map<String, String> context = Map.of(
                "qpid.work_dir", place,
                "broker.flowToDiskThreshold", "8000000000",
                "virtualhost.housekeepingCheckPeriod", "3600000");
        launcher.startup(Map.of(
                ConfiguredObject.TYPE, "Memory",
                ConfiguredObject.CONTEXT, context,
                SystemConfig.INITIAL_CONFIGURATION_LOCATION, configuration.toUri().toString(),
                SystemConfig.STARTUP_LOGGED_TO_SYSTEM_OUT, false));
        system = new Subject(
                true, Set.of(launcher.getSystemPrincipal(), new TaskPrincipal("bench")), Set.of(), Set.of());
        Broker<?> broker = (Broker<?>) opened.get().getContainer();
        version = broker.getProductVersion();
        host = as(() -> {
            String type = durable ? "BDB" : "Memory";
            org.apache.qpid.server.model.VirtualHostNode<?> node = broker.createChild(
                    org.apache.qpid.server.model.VirtualHostNode.class,
                    Map.of(
                            ConfiguredObject.NAME, "bench",
                            ConfiguredObject.TYPE, durable ? "JSON" : "Memory",
                            "virtualHostInitialConfiguration", "{\"type\": \"" + type + "\"}"));
            return (QueueManagingVirtualHost<?>) node.getVirtualHost();
        });
        store = host.getMessageStore();
        as(() -> declare(workload));
    }

    private Void declare(Workload workload) {
        for (Workload.Exchange exchange : workload.exchanges()) {
            exchanges.put(exchange.name(), host.createChild(Exchange.class, attributes(exchange.name(), exchange.type())));
        }
        for (String queue : workload.queues()) {
            queues.add(host.createChild(Queue.class, attributes(queue, "standard")));
        }
        for (Workload.Binding binding : workload.bindings()) {
            Map<String, Object> arguments = new HashMap<>(binding.criteria());
            if (!binding.selector().isEmpty()) {
                arguments.put("x-filter-jms-selector", binding.selector());
            }
            if (!exchanges.get(binding.exchange()).bind(binding.queue(), binding.key(), arguments, false)) {
                throw new IllegalArgumentException("bound already, with other arguments: " + binding);
            }
        }
        return null;
    }

    private Map<String, Object> attributes(String name, String type) {
        return Map.of(ConfiguredObject.NAME, name, ConfiguredObject.TYPE, type, ConfiguredObject.DURABLE, durable);
    }

    private <T> T as(PrivilegedAction<T> action) {
        return Subject.doAs(system, action);
    }

    @Override
    public String version() {
        return version;
    }

    @Override
    public Publisher publisher() {
        return new Publisher() {
            private ServerTransaction transaction = durable ? new LocalTransaction(store) : new AutoCommitTransaction(store);
            private int waiting;

            @Override
            public void publish(Workload.Message message) {
                BasicContentHeaderProperties properties = new BasicContentHeaderProperties();
                properties.setHeaders(FieldTable.convertToFieldTable(message.properties()));
                properties.setDeliveryMode((byte) (durable ? 2 : 1));
                MessagePublishInfo to = new MessagePublishInfo(
                        AMQShortString.valueOf(message.exchange()), false, false, AMQShortString.valueOf(message.key()));
                ContentHeaderBody header = new ContentHeaderBody(properties, message.body().length);
                MessageHandle<MessageMetaData> handle = store.addMessage(new MessageMetaData(to, header));
                try (QpidByteBuffer body = QpidByteBuffer.wrap(message.body())) {
                    handle.addContent(body);
                }
                AMQMessage sent = new AMQMessage(handle.allContentAdded());
                exchanges.get(message.exchange())
                        .route(sent, message.key(), InstanceProperties.EMPTY)
                        .send(transaction, null);
                if (durable && ++waiting == BATCH) {
                    finish();
                }
            }

            @Override
            public void finish() {
                if (durable) {
                    transaction.commit();
                    transaction = new LocalTransaction(store);
                    waiting = 0;
                }
            }
        };
    }

    @Override
    public Map<String, Long> counts() {
        Map<String, Long> found = new LinkedHashMap<>();
        for (Queue<?> queue : queues) {
            found.put(queue.getName(), (long) queue.getQueueDepthMessages());
        }
        return found;
    }

    @Override
    public void empty() {
        as(() -> {
            queues.forEach(Queue::clearQueue);
            return null;
        });
    }

    @Override
    public void close() {
        launcher.shutdown();
    }
}
