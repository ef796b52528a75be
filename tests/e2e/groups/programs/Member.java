import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Semaphore;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** A member with the official client; program.py says what it is told and what it tells. */
public final class Member implements ConsumerRebalanceListener {
    private static final Duration POLL = Duration.ofMillis(100);
    private static final long ORPHAN_MS = 20_000;

    private final PrintStream events = System.out;
    private final Semaphore go = new Semaphore(0);
    private volatile boolean hold;
    private volatile boolean close;
    /** Processed and not committed yet. */
    private final Map<TopicPartition, OffsetAndMetadata> pending = new HashMap<>();

    public static void main(String[] args) {
        Member member = new Member();
        System.setOut(System.err);
        Map<String, Object> settings = new HashMap<>();
        for (String pair : Arrays.asList(args).subList(1, args.length)) {
            settings.put(pair.split("=", 2)[0], pair.split("=", 2)[1]);
        }
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        Thread listener = new Thread(member::listen);
        listener.setDaemon(true);
        listener.start();
        member.run(args[0], settings);
    }

    private void listen() {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        try {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                hold |= line.equals("hold");
                close |= line.equals("close");
                if (line.equals("go")) {
                    go.release();
                }
            }
        } catch (java.io.IOException gone) {
            System.err.println(gone);
        }
        close = true;
        go.release();
        try {
            Thread.sleep(ORPHAN_MS);
        } catch (InterruptedException ended) {
            return;
        }
        Runtime.getRuntime().halt(1);
    }

    private void run(String topic, Map<String, Object> settings) {
        StringDeserializer text = new StringDeserializer();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings, text, text)) {
            consumer.subscribe(List.of(topic), this);
            say("started", "");
            while (!close) {
                process(consumer.poll(POLL));
                commit(consumer);
            }
        }
        say("closed", "");
    }

    private void process(ConsumerRecords<String, String> records) {
        if (records.isEmpty()) {
            return;
        }
        StringBuilder seen = new StringBuilder();
        for (ConsumerRecord<String, String> each : records) {
            seen.append(seen.length() == 0 ? "" : ", ").append(String.format(
                "[%d, %d, \"%s\"]", each.partition(), each.offset(), each.value()));
            pending.put(
                new TopicPartition(each.topic(), each.partition()),
                new OffsetAndMetadata(each.offset() + 1));
        }
        say("processed", ", \"records\": [" + seen + "]");
        if (hold) {
            hold = false;
            say("holding", "");
            go.acquireUninterruptibly();
        }
    }

    private void commit(KafkaConsumer<String, String> consumer) {
        if (pending.isEmpty()) {
            return;
        }
        Map<Integer, Long> offsets = new TreeMap<>();
        pending.forEach((place, offset) -> offsets.put(place.partition(), offset.offset()));
        String tried = ", \"offsets\": [" + offsets.entrySet().stream()
            .map(each -> String.format("[%d, %d]", each.getKey(), each.getValue()))
            .collect(Collectors.joining(", ")) + "]";
        try {
            consumer.commitSync(new HashMap<>(pending));
            say("committed", tried);
            pending.clear();
        } catch (KafkaException failure) {
            say("refused", ", \"error\": \"" + failure.getClass().getSimpleName() + "\"" + tried);
        }
    }

    // -- ConsumerRebalanceListener

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> places) {
        say("assigned", partitions(places));
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> places) {
        say("revoked", partitions(places));
        pending.keySet().removeAll(places);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> places) {
        say("lost", partitions(places));
        pending.keySet().removeAll(places);
    }

    private static String partitions(Collection<TopicPartition> places) {
        return ", \"partitions\": [" + places.stream().map(TopicPartition::partition).sorted()
            .map(String::valueOf).collect(Collectors.joining(", ")) + "]";
    }

    private synchronized void say(String event, String details) {
        events.println("{\"event\": \"" + event + "\"" + details + "}");
        events.flush();
    }
}
