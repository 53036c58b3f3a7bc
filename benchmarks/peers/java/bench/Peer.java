package bench;

import java.util.Map;

/** A broker with the topology of a workload declared in it. */
interface Peer extends AutoCloseable {

    /** What one thread publishes by. */
    interface Publisher extends AutoCloseable {

        void publish(Workload.Message message) throws Exception;

        /** Returns when what was published is as safe as the form of the peer promises. */
        void finish() throws Exception;

        @Override
        default void close() throws Exception {}
    }

    String version();

    Publisher publisher() throws Exception;

    /** Queue -> messages in it. */
    Map<String, Long> counts() throws Exception;

    void empty() throws Exception;

    /** Messages of one transaction, or between two waits for confirms, of a durable form. */
    int BATCH = 1_000;
}
