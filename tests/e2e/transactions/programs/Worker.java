import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** A worker with the official client; what it is told and tells is in program.py. */
public final class Worker implements ConsumerRebalanceListener {
    private static final int ABORT_EVERY = 5;
    private static final long TIMEOUT_MS = 30_000;
    private static PrintStream events;
    private static volatile boolean hold;
    private static volatile boolean close;

    private final String input;
    private final String output;
    private final KafkaProducer<String, String> producer;
    private final KafkaConsumer<String, String> consumer;
    private int transactions;

    private Worker(String[] args) {
        input = args[1];
        output = args[2];
        Map<String, Object> common = new HashMap<>();
        common.put("bootstrap.servers", args[0]);
        common.put("reconnect.backoff.max.ms", 200);
        common.put("retry.backoff.max.ms", 200);
        common.put("request.timeout.ms", 5_000);
        Map<String, Object> writing = new HashMap<>(common);
        writing.put("transactional.id", args[4]);
        writing.put("max.block.ms", TIMEOUT_MS);
        writing.put("delivery.timeout.ms", 30_000);
        writing.put("key.serializer", StringSerializer.class);
        writing.put("value.serializer", StringSerializer.class);
        producer = new KafkaProducer<>(writing);
        Map<String, Object> reading = new HashMap<>(common);
        reading.put("group.id", args[3]);
        reading.put("isolation.level", "read_committed");
        reading.put("auto.offset.reset", "earliest");
        reading.put("enable.auto.commit", "false");
        reading.put("max.poll.records", 50);
        reading.put("key.deserializer", StringDeserializer.class);
        reading.put("value.deserializer", StringDeserializer.class);
        if (args.length > 6) {
            reading.put("group.protocol", args[6]);
        } else {
            reading.put("session.timeout.ms", 3_000);
            reading.put("heartbeat.interval.ms", 300);
        }
        consumer = new KafkaConsumer<>(reading);
    }

    public static void main(String[] args) throws Exception {
        events = System.out;
        System.setOut(System.err);
        Thread listener = new Thread(Worker::listen);
        listener.setDaemon(true);
        listener.start();
        Worker worker = new Worker(args);
        try {
            worker.run();
        } catch (KafkaException failure) {
            failure.printStackTrace();
            say(isFatal(failure) ? "fatal" : "broken", "why", quoted(failure.toString()));
            Runtime.getRuntime().halt(1);
        }
        say("closed", "count", "0");
    }

    private static void listen() {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        lines.lines().forEach(line -> {
            hold |= line.equals("hold");
            close |= line.equals("close");
        });
        close = true;
    }

    private static synchronized void say(String event, String name, String value) {
        events.println("{\"event\": \"" + event + "\", \"" + name + "\": " + value + "}");
        events.flush();
    }

    private static String quoted(String text) {
        return "\"" + text.replace("\\", "/").replace("\"", "'").replace("\n", " ") + "\"";
    }

    private static boolean isFatal(KafkaException failure) {
        return failure instanceof ProducerFencedException
            || failure instanceof InvalidProducerEpochException
            || failure instanceof OutOfOrderSequenceException
            || failure instanceof UnsupportedVersionException
            || failure instanceof AuthorizationException;
    }

    private void run() {
        producer.initTransactions();
        consumer.subscribe(List.of(input), this);
        say("ready", "count", "0");
        while (!close) {
            ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(100));
            if (!records.isEmpty()) {
                transact(records);
            }
        }
        consumer.close(Duration.ofSeconds(5));
        producer.close(Duration.ofSeconds(5));
    }

    private void transact(ConsumerRecords<String, String> records) {
        boolean meansIt = ++transactions % ABORT_EVERY != 0;
        String why = "on purpose";
        producer.beginTransaction();
        try {
            write(records, meansIt);
            if (meansIt) {
                retried(producer::commitTransaction);
                say("committed", "count", String.valueOf(records.count()));
                return;
            }
        } catch (KafkaException failure) {
            if (isFatal(failure)) {
                throw failure;
            }
            why = failure.toString();
        }
        retried(producer::abortTransaction);
        say("aborted", "why", quoted(why));
        rewind();
    }

    private void write(ConsumerRecords<String, String> records, boolean meansIt) {
        Map<TopicPartition, OffsetAndMetadata> ends = new HashMap<>();
        for (ConsumerRecord<String, String> record : records) {
            String made = (meansIt ? "done " : "never ") + record.value();
            producer.send(new ProducerRecord<>(output, record.partition(), null, made));
            ends.put(new TopicPartition(record.topic(), record.partition()),
                new OffsetAndMetadata(record.offset() + 1));
        }
        producer.sendOffsetsToTransaction(ends, consumer.groupMetadata());
        if (hold) {
            producer.flush();
            say("holding", "count", String.valueOf(records.count()));
            while (true) {
                pause();
            }
        }
    }

    /** Again from what is committed, which may be what somebody else has committed. A partition
     *  that is added in the meantime, as it may be at any time, begins there by itself. */
    private void rewind() {
        Set<TopicPartition> owned = Set.copyOf(consumer.assignment());
        Map<TopicPartition, OffsetAndMetadata> committed =
            consumer.committed(owned, Duration.ofMillis(TIMEOUT_MS));
        for (TopicPartition place : owned) {
            OffsetAndMetadata known = committed.get(place);
            if (known == null) {
                consumer.seekToBeginning(List.of(place));
            } else {
                consumer.seek(place, known.offset());
            }
        }
    }

    private static void retried(Runnable step) {
        long deadline = System.nanoTime() + TIMEOUT_MS * 1_000_000;
        while (true) {
            try {
                step.run();
                return;
            } catch (TimeoutException late) {
                if (System.nanoTime() > deadline) {
                    throw late;
                }
            }
        }
    }

    private static void pause() {
        try {
            Thread.sleep(1_000);
        } catch (InterruptedException none) {
            throw new IllegalStateException(none);
        }
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> places) { }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> places) {
        say("assigned", "partitions", places.stream().map(TopicPartition::partition).sorted()
            .collect(Collectors.toList()).toString());
    }
}
