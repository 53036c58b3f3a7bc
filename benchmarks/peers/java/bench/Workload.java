package bench;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** A topology and the messages for it, as benchmarks/peers/texts.py writes them: lines of fields between tabs. */
record Workload(List<Exchange> exchanges, List<String> queues, List<Binding> bindings, List<Message> messages) {

    record Exchange(String name, String type) {}

    /** {@code selector} is empty where there is none. */
    record Binding(String exchange, String queue, String key, String selector, Map<String, Object> criteria) {}

    record Message(String exchange, String key, Map<String, Object> properties, byte[] body) {}

    static Workload read(Path topology, Path messages) throws IOException {
        Workload read = new Workload(new ArrayList<>(), new ArrayList<>(), new ArrayList<>(), new ArrayList<>());
        for (String line : Files.readAllLines(topology, StandardCharsets.UTF_8)) {
            String[] field = line.split("\t", -1);
            switch (field[0]) {
                case "exchange" -> read.exchanges.add(new Exchange(field[1], field[2]));
                case "queue" -> read.queues.add(field[1]);
                case "binding" ->
                    read.bindings.add(new Binding(field[1], field[2], field[3], field[4], values(field[5])));
                default -> throw new IOException("no such object: " + line);
            }
        }
        for (String line : Files.readAllLines(messages, StandardCharsets.UTF_8)) {
            String[] field = line.split("\t", -1);
            byte[] body = Base64.getDecoder().decode(field[3]);
            read.messages.add(new Message(field[0], field[1], values(field[2]), body));
        }
        return read;
    }

    /** Reads {@code name=s:text|name=i:1|name=d:1.5|name=b:true}. */
    private static Map<String, Object> values(String text) throws IOException {
        Map<String, Object> found = new LinkedHashMap<>();
        for (String one : text.isEmpty() ? new String[0] : text.split("\\|")) {
            int equals = one.indexOf('=');
            String value = one.substring(equals + 3);
            found.put(
                    one.substring(0, equals).intern(),
                    switch (one.charAt(equals + 1)) {
                        case 's' -> value.intern();
                        case 'i' -> Integer.valueOf(value);
                        case 'd' -> Double.valueOf(value);
                        case 'b' -> Boolean.valueOf(value);
                        default -> throw new IOException("no such type: " + one);
                    });
        }
        return found;
    }
}
