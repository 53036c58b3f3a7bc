package bench;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/**
 * Publishes a workload to a peer, once for each line on standard input, and answers with a line of JSON: the seconds from
 * the first message until all were accepted, as the form promises, and what every queue held then. The line says how many
 * copies to wait for, which is not timed; when they are not there within ten seconds, those that are there are the answer.
 *
 * <p>Arguments: peer (rabbitmq, artemis, broker-j), form (durable, volatile), topology, messages, threads, and where the
 * peer is: a folder of its own, or the address of a broker that runs.
 */
final class Main {

    private static final long COUNTED_WITHIN_NS = 10_000_000_000L;

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err); // what brokers say of themselves
        boolean durable =
                switch (arguments[1]) {
                    case "durable" -> true;
                    case "volatile" -> false;
                    default -> throw new IllegalArgumentException("no such form: " + arguments[1]);
                };
        Workload workload = Workload.read(Path.of(arguments[2]), Path.of(arguments[3]));
        int threads = Integer.parseInt(arguments[4]);
        try (Peer peer = open(arguments[0], durable, workload, arguments[5])) {
            answers.println("{\"version\": \"" + peer.version() + "\"}");
            BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
            for (String line = commands.readLine(); line != null; line = commands.readLine()) {
                long expected = Long.parseLong(line);
                System.gc();
                long started = System.nanoTime();
                publish(peer, workload.messages(), threads);
                long published = System.nanoTime();
                Map<String, Long> counts = peer.counts();
                while (sum(counts) < expected && System.nanoTime() - published < COUNTED_WITHIN_NS) {
                    Thread.sleep(5);
                    counts = peer.counts();
                }
                double seconds = (published - started) / 1e9;
                String queues = counts.entrySet().stream()
                        .map(entry -> "\"" + entry.getKey() + "\": " + entry.getValue())
                        .collect(Collectors.joining(", "));
                answers.println("{\"seconds\": " + seconds + ", \"counts\": {" + queues + "}}");
                peer.empty();
            }
        }
        System.exit(0); // whatever threads an embedded broker leaves behind
    }

    private static long sum(Map<String, Long> counts) {
        return counts.values().stream().mapToLong(Long::longValue).sum();
    }

    private static Peer open(String name, boolean durable, Workload workload, String place) throws Exception {
        // by name, so that each peer is compiled with its own libraries alone
        String found =
                switch (name) {
                    case "rabbitmq" -> "bench.RabbitMq";
                    case "artemis" -> "bench.Artemis";
                    case "broker-j" -> "bench.BrokerJ";
                    default -> throw new IllegalArgumentException("no such peer: " + name);
                };
        return (Peer) Class.forName(found)
                .getDeclaredConstructor(boolean.class, Workload.class, String.class)
                .newInstance(durable, workload, place);
    }

    private static void publish(Peer peer, List<Workload.Message> messages, int threads) throws Exception {
        List<Thread> started = new ArrayList<>();
        List<Exception> failed = new ArrayList<>();
        for (int number = 0; number < threads; number++) {
            int first = (int) ((long) messages.size() * number / threads);
            int last = (int) ((long) messages.size() * (number + 1) / threads);
            Thread thread = new Thread(() -> {
                try (Peer.Publisher publisher = peer.publisher()) {
                    for (Workload.Message message : messages.subList(first, last)) {
                        publisher.publish(message);
                    }
                    publisher.finish();
                } catch (Exception problem) {
                    synchronized (failed) {
                        failed.add(problem);
                    }
                }
            });
            thread.start();
            started.add(thread);
        }
        for (Thread thread : started) {
            thread.join();
        }
        if (!failed.isEmpty()) {
            throw failed.get(0);
        }
    }
}
