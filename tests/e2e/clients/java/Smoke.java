import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URLDecoder;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.QuorumInfo;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The official client, told what to do line by line: a verb and its arguments, separated by tabs and
 * percent-encoded. Each line is answered by one: `ok` and results, `refused` and Kafka's name of the
 * error, or `broken` and why.
 */
public final class Smoke {
    private static final String NULL = "~";
    private static final long TIMEOUT_MS = 10_000;

    private final String bootstrap;
    private final Admin admin;
    /** Sits at the end of a partition between `seek_end` and `next`. */
    private KafkaConsumer<byte[], byte[]> waiting;

    private Smoke(String bootstrap) {
        this.bootstrap = bootstrap;
        this.admin = Admin.create(common());
    }

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err);
        Smoke smoke = new Smoke(args[0]);
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            answers.println(smoke.answer(line));
            answers.flush();
        }
        smoke.admin.close(Duration.ofSeconds(2));
    }

    private String answer(String line) {
        List<String> words = Arrays.stream(line.split("\t", -1))
            .map(word -> URLDecoder.decode(word, StandardCharsets.UTF_8))
            .collect(Collectors.toList());
        List<String> answer = new ArrayList<>();
        try {
            answer.addAll(perform(words.get(0), words.subList(1, words.size())));
            answer.add(0, "ok");
        } catch (Throwable failure) {
            Throwable cause = failure;
            while (cause instanceof ExecutionException && cause.getCause() != null) {
                cause = cause.getCause();
            }
            Errors error = cause instanceof ApiException
                ? Errors.forException(cause) : Errors.UNKNOWN_SERVER_ERROR;
            boolean known = error != Errors.UNKNOWN_SERVER_ERROR;
            answer = List.of(known ? "refused" : "broken", error.name(), String.valueOf(cause));
        }
        return answer.stream()
            .map(word -> URLEncoder.encode(word, StandardCharsets.UTF_8))
            .collect(Collectors.joining("\t"));
    }

    private List<String> perform(String verb, List<String> args) throws Exception {
        switch (verb) {
            case "create_topic": return createTopic(args);
            case "delete_topic":
                return done(admin.deleteTopics(List.of(args.get(0))).all());
            case "produce": return produce(args);
            case "read": return read(args);
            case "seek_end": return seekEnd(args);
            case "next": return next();
            case "broker_ids":
                return ids(admin.describeCluster().nodes().get());
            case "partitions": return partitions(args.get(0));
            case "configs": return configs(args.get(0));
            case "set_config": return setConfig(args);
            case "log_sizes": return logSizes(args.get(0));
            case "add_partitions":
                return done(admin.createPartitions(Map.of(
                    args.get(0), NewPartitions.increaseTo(Integer.parseInt(args.get(1))))).all());
            case "delete_records":
                return List.of(String.valueOf(admin.deleteRecords(Map.of(
                    place(args), RecordsToDelete.beforeOffset(Long.parseLong(args.get(2)))))
                    .lowWatermarks().get(place(args)).get().lowWatermark()));
            case "offset_at": return offsetAt(args);
            case "elect_preferred": return elect(place(args));
            case "reassign": return reassign(args);
            case "quorum": return quorum();
            case "groups": return groups();
            case "group": return group(args.get(0));
            case "group_offsets": return groupOffsets(args.get(0));
            case "alter_group_offset":
                return done(admin.alterConsumerGroupOffsets(args.get(2), Map.of(
                    place(args), new OffsetAndMetadata(Long.parseLong(args.get(3))))).all());
            case "delete_group_offset":
                return done(admin.deleteConsumerGroupOffsets(
                    args.get(2), Set.of(place(args))).partitionResult(place(args)));
            case "delete_group":
                return done(admin.deleteConsumerGroups(List.of(args.get(0))).all());
            default: throw new IllegalArgumentException(verb);
        }
    }

    // -- records

    /** topic, acks, codec, idempotent, then the records. */
    private List<String> produce(List<String> args) throws Exception {
        Map<String, Object> config = common();
        config.put("acks", args.get(1));
        config.put("compression.type", args.get(2));
        config.put("enable.idempotence", args.get(3));
        config.put("linger.ms", 5);
        config.put("max.request.size", 10_000_000);
        config.put("max.block.ms", TIMEOUT_MS);
        config.put("delivery.timeout.ms", 10_000);
        config.put("request.timeout.ms", 5_000);
        config.put("key.serializer", ByteArraySerializer.class);
        config.put("value.serializer", ByteArraySerializer.class);
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config)) {
            for (String record : args.subList(4, args.size())) {
                sent.add(producer.send(toSend(args.get(0), record.split(",", -1))));
            }
            producer.flush();
            for (Future<RecordMetadata> each : sent) {
                each.get();
            }
        }
        return List.of();
    }

    private static ProducerRecord<byte[], byte[]> toSend(String topic, String[] fields) {
        List<Header> headers = new ArrayList<>();
        for (String header : fields[4].isEmpty() ? new String[0] : fields[4].split(";")) {
            String[] pair = header.split(":", -1);
            headers.add(new RecordHeader(
                new String(bytes(pair[0]), StandardCharsets.UTF_8), bytes(pair[1])));
        }
        return new ProducerRecord<>(topic, Integer.valueOf(fields[0]), Long.valueOf(fields[1]),
            bytes(fields[2]), bytes(fields[3]), headers);
    }

    private KafkaConsumer<byte[], byte[]> consumer() {
        Map<String, Object> config = common();
        config.put("enable.auto.commit", "false");
        config.put("allow.auto.create.topics", "false");
        config.put("auto.offset.reset", "none");
        config.put("default.api.timeout.ms", 5_000);
        config.put("request.timeout.ms", 4_000);
        config.put("key.deserializer", ByteArrayDeserializer.class);
        config.put("value.deserializer", ByteArrayDeserializer.class);
        return new KafkaConsumer<>(config);
    }

    /** topic, partition, kind of start, its number. */
    private List<String> read(List<String> args) {
        TopicPartition place = place(args);
        long number = Long.parseLong(args.get(3));
        List<String> read = new ArrayList<>();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            consumer.assign(List.of(place));
            if (args.get(2).equals("earliest")) {
                consumer.seekToBeginning(List.of(place));
            } else if (args.get(2).equals("timestamp")) {
                consumer.seek(place, consumer.offsetsForTimes(Map.of(place, number))
                    .get(place).offset());
            } else {
                consumer.seek(place, number);
            }
            long end = consumer.endOffsets(List.of(place)).get(place);
            long deadline = System.nanoTime() + TIMEOUT_MS * 1_000_000;
            while (consumer.position(place) < end) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("the end never came");
                }
                consumer.poll(Duration.ofSeconds(1)).forEach(each -> read.add(fetched(each)));
            }
        }
        return read;
    }

    private List<String> seekEnd(List<String> args) {
        waiting = consumer();
        waiting.assign(List.of(place(args)));
        waiting.seekToEnd(List.of(place(args)));
        return List.of(String.valueOf(waiting.position(place(args))));
    }

    private List<String> next() {
        List<String> read = new ArrayList<>();
        waiting.poll(Duration.ofMillis(TIMEOUT_MS)).forEach(each -> read.add(fetched(each)));
        waiting.close();
        return read;
    }

    private static String fetched(ConsumerRecord<byte[], byte[]> record) {
        List<String> headers = new ArrayList<>();
        for (Header header : record.headers()) {
            headers.add(text(header.key().getBytes(StandardCharsets.UTF_8))
                + ":" + text(header.value()));
        }
        return record.offset() + "," + record.partition() + "," + record.timestamp() + ","
            + text(record.key()) + "," + text(record.value()) + "," + String.join(";", headers);
    }

    // -- administration

    /** name, partitions, replicas, then keys and values. */
    private List<String> createTopic(List<String> args) throws Exception {
        Map<String, String> configs = new HashMap<>();
        for (int at = 3; at < args.size(); at += 2) {
            configs.put(args.get(at), args.get(at + 1));
        }
        NewTopic topic = new NewTopic(args.get(0), Optional.of(Integer.valueOf(args.get(1))),
            Optional.of(Short.valueOf(args.get(2))));
        return done(admin.createTopics(List.of(topic.configs(configs))).all());
    }

    private List<String> partitions(String topic) throws Exception {
        List<String> seen = new ArrayList<>();
        for (TopicPartitionInfo each : admin.describeTopics(List.of(topic))
                .allTopicNames().get().get(topic).partitions()) {
            seen.add(each.partition() + ";" + (each.leader() == null ? -1 : each.leader().id())
                + ";" + String.join(",", ids(each.replicas()))
                + ";" + String.join(",", ids(each.isr())));
        }
        return seen;
    }

    private List<String> configs(String topic) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        List<String> entries = new ArrayList<>();
        for (ConfigEntry each : admin.describeConfigs(List.of(resource)).all().get()
                .get(resource).entries()) {
            entries.add(each.name() + "=" + each.value());
        }
        return entries;
    }

    private List<String> setConfig(List<String> args) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, args.get(0));
        AlterConfigOp set = new AlterConfigOp(
            new ConfigEntry(args.get(1), args.get(2)), AlterConfigOp.OpType.SET);
        return done(admin.incrementalAlterConfigs(Map.of(resource, List.of(set))).all());
    }

    private List<String> logSizes(String topic) throws Exception {
        List<Integer> brokers = admin.describeCluster().nodes().get().stream()
            .map(Node::id).collect(Collectors.toList());
        Map<Integer, Long> sizes = new TreeMap<>();
        for (Map.Entry<Integer, Map<String, LogDirDescription>> broker
                : admin.describeLogDirs(brokers).allDescriptions().get().entrySet()) {
            for (LogDirDescription directory : broker.getValue().values()) {
                directory.replicaInfos().forEach((place, info) -> {
                    if (place.topic().equals(topic)) {
                        sizes.merge(broker.getKey(), info.size(), Long::sum);
                    }
                });
            }
        }
        return sizes.entrySet().stream()
            .map(each -> each.getKey() + "=" + each.getValue()).collect(Collectors.toList());
    }

    private List<String> offsetAt(List<String> args) throws Exception {
        OffsetSpec spec = args.get(2).equals("earliest") ? OffsetSpec.earliest()
            : args.get(2).equals("latest") ? OffsetSpec.latest()
            : OffsetSpec.forTimestamp(Long.parseLong(args.get(3)));
        return List.of(String.valueOf(
            admin.listOffsets(Map.of(place(args), spec)).all().get().get(place(args)).offset()));
    }

    private List<String> elect(TopicPartition place) throws Exception {
        Optional<Throwable> error = admin.electLeaders(ElectionType.PREFERRED, Set.of(place))
            .partitions().get().get(place);
        if (error.isPresent()) {
            throw new ExecutionException(error.get());
        }
        return List.of();
    }

    private List<String> reassign(List<String> args) throws Exception {
        List<Integer> replicas = args.subList(2, args.size()).stream()
            .map(Integer::valueOf).collect(Collectors.toList());
        admin.alterPartitionReassignments(
            Map.of(place(args), Optional.of(new NewPartitionReassignment(replicas)))).all().get();
        return List.of();
    }

    private List<String> quorum() throws Exception {
        QuorumInfo info = admin.describeMetadataQuorum().quorumInfo().get();
        List<String> ids = info.voters().stream()
            .map(voter -> String.valueOf(voter.replicaId())).collect(Collectors.toList());
        ids.add(0, String.valueOf(info.leaderId()));
        return ids;
    }

    // -- groups

    private List<String> groups() throws Exception {
        return admin.listConsumerGroups().all().get().stream()
            .map(each -> each.groupId() + "=" + each.state().get())
            .collect(Collectors.toList());
    }

    /** Its state, then a client id and a partition for each that is assigned. */
    private List<String> group(String id) throws Exception {
        ConsumerGroupDescription seen =
            admin.describeConsumerGroups(List.of(id)).all().get().get(id);
        List<String> words = new ArrayList<>(List.of(seen.state().toString()));
        seen.members().forEach(member -> member.assignment().topicPartitions().forEach(
            place -> words.add(member.clientId() + "=" + place.partition())));
        return words;
    }

    private List<String> groupOffsets(String id) throws Exception {
        return admin.listConsumerGroupOffsets(id).partitionsToOffsetAndMetadata().get()
            .entrySet().stream()
            .map(each -> each.getKey().partition() + "=" + each.getValue().offset())
            .collect(Collectors.toList());
    }

    // -- words

    private Map<String, Object> common() {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", bootstrap);
        config.put("client.id", "java");
        return config;
    }

    private static List<String> done(Future<?> future) throws Exception {
        future.get();
        return List.of();
    }

    private static TopicPartition place(List<String> args) {
        return new TopicPartition(args.get(0), Integer.parseInt(args.get(1)));
    }

    private static List<String> ids(java.util.Collection<Node> nodes) {
        return nodes.stream().map(node -> String.valueOf(node.id())).collect(Collectors.toList());
    }

    private static byte[] bytes(String text) {
        return text.equals(NULL) ? null : Base64.getDecoder().decode(text);
    }

    private static String text(byte[] bytes) {
        return bytes == null ? NULL : Base64.getEncoder().encodeToString(bytes);
    }
}
