import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.TreeSet;
import javax.jms.Connection;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.broker.BrokerFactory;
import org.apache.activemq.broker.BrokerService;
import org.apache.activemq.command.ActiveMQDestination;

/**
 * A broker of the configuration that is named. Each line of its input is a message: a destination and properties
 * (name=value, name=i:number), with tabs between; each line of its output the queues that it reached.
 */
public class ActiveMqClassic {
    public static void main(String[] arguments) throws Exception {
        BrokerService broker = BrokerFactory.createBroker("xbean:file:" + arguments[0]);
        broker.start();
        broker.waitUntilStarted();
        var factory = new ActiveMQConnectionFactory("vm://" + broker.getBrokerName() + "?create=false");
        factory.setWatchTopicAdvisories(false);
        Connection connection = factory.createConnection();
        connection.start();
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        var input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] parts = line.split("\t");
            Message message = session.createMessage();
            for (int at = 1; at < parts.length; at++) {
                String[] pair = parts[at].split("=", 2);
                if (pair[1].startsWith("i:")) {
                    message.setIntProperty(pair[0], Integer.parseInt(pair[1].substring(2)));
                } else {
                    message.setStringProperty(pair[0], pair[1]);
                }
            }
            var to = ActiveMQDestination.createDestination(parts[0], ActiveMQDestination.QUEUE_TYPE);
            MessageProducer producer = session.createProducer(to);
            producer.send(message);
            producer.close();
            var reached = new TreeSet<String>();
            for (ActiveMQDestination one : broker.getRegionBroker().getDestinations()) {
                if (!one.isQueue() || one.isPattern() || one.isComposite()) {
                    continue;
                }
                var browser = session.createBrowser((Queue) one);
                boolean holds = browser.getEnumeration().hasMoreElements();
                browser.close();
                if (holds) {
                    reached.add(one.getPhysicalName());
                    MessageConsumer consumer = session.createConsumer((Queue) one);
                    while (consumer.receive(100) != null) {
                        continue;
                    }
                    consumer.close();
                }
            }
            System.out.println("reached\t" + String.join("\t", reached));
        }
        System.exit(0);
    }
}
