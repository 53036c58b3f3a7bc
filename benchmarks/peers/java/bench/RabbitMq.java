package bench;

import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import java.util.LinkedHashMap;
import java.util.Map;

/** RabbitMQ over AMQP 0-9-1: persistent messages with confirms, or transient ones without. */
final class RabbitMq implements Peer {

    private static final long CONFIRMED_WITHIN_MS = 120_000;

    private final boolean durable;
    private final Workload workload;
    private final ConnectionFactory factory = new ConnectionFactory();
    private final Connection connection;
    private final Channel channel;

    RabbitMq(boolean durable, Workload workload, String place) throws Exception {
        this.durable = durable;
        this.workload = workload;
        factory.setUri(place);
        connection = factory.newConnection();
        channel = connection.createChannel();
        for (Workload.Exchange exchange : workload.exchanges()) {
            channel.exchangeDeclare(exchange.name(), exchange.type(), durable);
        }
        for (String queue : workload.queues()) {
            channel.queueDeclare(queue, durable, false, false, null);
        }
        for (Workload.Binding binding : workload.bindings()) {
            if (!binding.selector().isEmpty()) {
                throw new IllegalArgumentException("RabbitMQ has no selectors on bindings");
            }
            channel.queueBind(binding.queue(), binding.exchange(), binding.key(), binding.criteria());
        }
    }

    @Override
    public String version() {
        return connection.getServerProperties().get("version").toString();
    }

    @Override
    public Publisher publisher() throws Exception {
        Connection own = factory.newConnection();
        Channel channel = own.createChannel();
        if (durable) {
            channel.confirmSelect();
        }
        return new Publisher() {
            private int waiting;

            @Override
            public void publish(Workload.Message message) throws Exception {
                AMQP.BasicProperties properties = new AMQP.BasicProperties.Builder()
                        .deliveryMode(durable ? 2 : 1)
                        .headers(message.properties())
                        .build();
                channel.basicPublish(message.exchange(), message.key(), properties, message.body());
                if (durable && ++waiting == BATCH) {
                    finish();
                }
            }

            @Override
            public void finish() throws Exception {
                if (durable) {
                    channel.waitForConfirmsOrDie(CONFIRMED_WITHIN_MS);
                    waiting = 0;
                } else {
                    // a call is answered after what was published before it on the same channel
                    channel.queueDeclarePassive(workload.queues().get(0));
                }
            }

            @Override
            public void close() throws Exception {
                own.close();
            }
        };
    }

    @Override
    public Map<String, Long> counts() throws Exception {
        Map<String, Long> found = new LinkedHashMap<>();
        for (String queue : workload.queues()) {
            found.put(queue, channel.messageCount(queue)); // the queue answers after what it was sent before
        }
        return found;
    }

    @Override
    public void empty() throws Exception {
        for (String queue : workload.queues()) {
            channel.queuePurge(queue);
        }
    }

    @Override
    public void close() throws Exception {
        for (String queue : workload.queues()) {
            channel.queueDelete(queue);
        }
        for (Workload.Exchange exchange : workload.exchanges()) {
            channel.exchangeDelete(exchange.name());
        }
        connection.close();
    }
}
