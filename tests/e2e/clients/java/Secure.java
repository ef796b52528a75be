import java.io.FileInputStream;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Writes and reads back a few records with the properties of a file; prints what it read. */
public final class Secure {
    private static final int RECORDS = 5;

    public static void main(String[] arguments) throws Exception {
        Properties given = new Properties();
        try (FileInputStream file = new FileInputStream(arguments[0])) {
            given.load(file);
        }
        given.put("max.block.ms", "20000");
        String topic = arguments[1];
        try {
            write(given, topic);
            read(given, topic);
        } catch (Exception failed) {
            Throwable cause = failed.getCause() == null ? failed : failed.getCause();
            System.out.println(cause.getClass().getSimpleName() + ": " + cause.getMessage());
            System.exit(1);
        }
    }

    private static void write(Properties given, String topic) throws Exception {
        StringSerializer text = new StringSerializer();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(given, text, text)) {
            for (int number = 0; number < RECORDS; number++) {
                producer.send(new ProducerRecord<>(topic, 0, null, "tide " + number)).get();
            }
        }
    }

    private static void read(Properties given, String topic) {
        StringDeserializer text = new StringDeserializer();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(given, text, text)) {
            TopicPartition partition = new TopicPartition(topic, 0);
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            for (int found = 0; found < RECORDS; ) {
                for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofSeconds(1))) {
                    System.out.println(each.value());
                    found++;
                }
            }
        }
    }
}
