import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.FeatureMetadata;
import org.apache.kafka.clients.admin.FinalizedVersionRange;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.admin.TransactionListing;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringSerializer;

/** The official client and administrator. A line of words is an order, and answered by an event. */
public final class Transactions {
    private final String bootstrap;
    private final Admin admin;

    private Transactions(String bootstrap) {
        this.bootstrap = bootstrap;
        this.admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
    }

    public static void main(String[] args) throws Exception {
        PrintStream events = System.out;
        System.setOut(System.err);
        Transactions told = new Transactions(args[0]);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); !line.equals("close"); line = lines.readLine()) {
            events.println(told.answer(line.split(" ")));
            events.flush();
        }
        told.admin.close();
        events.println(event("closed", List.of()));
    }

    private static String event(String name, List<String> rows) {
        StringBuilder quoted = new StringBuilder();
        for (String row : rows) {
            quoted.append(quoted.length() == 0 ? "\"" : ", \"").append(row).append("\"");
        }
        return "{\"event\": \"" + name + "\", \"rows\": [" + quoted + "]}";
    }

    private String answer(String[] words) throws Exception {
        try {
            return event(words[0], perform(words));
        } catch (ExecutionException failure) {
            failure.printStackTrace();
            return event("refused", List.of(failure.getCause().getClass().getSimpleName()));
        }
    }

    private List<String> perform(String[] words) throws Exception {
        switch (words[0]) {
            case "list": return list();
            case "describe": return describe(words[1]);
            case "producers": return producers(place(words));
            case "abort": return abort(place(words));
            case "features": return features();
            case "twins": return twins(words[1], words[2]);
            default: throw new IllegalArgumentException(words[0]);
        }
    }

    private List<String> list() throws Exception {
        List<String> rows = new ArrayList<>();
        for (TransactionListing each : admin.listTransactions().all().get()) {
            rows.add(each.transactionalId() + " " + each.state());
        }
        return rows;
    }

    private List<String> describe(String id) throws Exception {
        TransactionDescription found = admin.describeTransactions(List.of(id))
            .description(id).get();
        return List.of(found.state() + " " + found.producerId() + " " + found.producerEpoch() + " "
            + found.transactionTimeoutMs() + " " + found.topicPartitions());
    }

    private List<String> producers(TopicPartition place) throws Exception {
        List<String> rows = new ArrayList<>();
        for (ProducerState each : states(place)) {
            rows.add(each.producerId() + " " + each.producerEpoch() + " "
                + each.currentTransactionStartOffset().orElse(-1));
        }
        return rows;
    }

    private List<ProducerState> states(TopicPartition place) throws Exception {
        return admin.describeProducers(List.of(place)).partitionResult(place).get()
            .activeProducers();
    }

    /** What holds readers back there, as the tool does that Kafka brings along. */
    private List<String> abort(TopicPartition place) throws Exception {
        List<String> rows = new ArrayList<>();
        for (ProducerState each : states(place)) {
            if (each.currentTransactionStartOffset().isPresent()) {
                admin.abortTransaction(new AbortTransactionSpec(place, each.producerId(),
                    (short) each.producerEpoch(), each.coordinatorEpoch().orElse(0))).all().get();
                rows.add(String.valueOf(each.producerId()));
            }
        }
        return rows;
    }

    private List<String> features() throws Exception {
        FeatureMetadata found = admin.describeFeatures().featureMetadata().get();
        List<String> rows = new ArrayList<>();
        for (Map.Entry<String, FinalizedVersionRange> each : found.finalizedFeatures().entrySet()) {
            rows.add(each.getKey() + " " + each.getValue().maxVersionLevel());
        }
        return rows;
    }

    /** Two producers with one transactional id; what the older one is told when it commits. */
    private List<String> twins(String topic, String id) throws Exception {
        try (KafkaProducer<String, String> older = producer(id);
             KafkaProducer<String, String> newer = producer(id)) {
            older.initTransactions();
            older.beginTransaction();
            older.send(new ProducerRecord<>(topic, 0, null, "of the older")).get();
            newer.initTransactions();
            String told = "nothing";
            try {
                older.commitTransaction();
            } catch (KafkaException failure) {
                told = failure.getClass().getSimpleName();
            }
            newer.beginTransaction();
            newer.send(new ProducerRecord<>(topic, 0, null, "of the newer")).get();
            newer.commitTransaction();
            return List.of(told);
        }
    }

    private KafkaProducer<String, String> producer(String id) {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", bootstrap);
        config.put("transactional.id", id);
        config.put("key.serializer", StringSerializer.class);
        config.put("value.serializer", StringSerializer.class);
        return new KafkaProducer<>(config);
    }

    private static TopicPartition place(String[] words) {
        return new TopicPartition(words[1], Integer.parseInt(words[2]));
    }
}
