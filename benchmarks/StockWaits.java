import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Reads partitions one after the other, as tasks of Spark's Kafka connector do: after each poll it
 * asks where the partition begins and ends. Says what it waited for, in ms. */
public class StockWaits {
    static double since(long beganNs) {
        return (System.nanoTime() - beganNs) / 1e6;
    }

    public static void main(String[] words) {
        String topic = words[1];
        int partitions = Integer.parseInt(words[2]);
        Properties settings = new Properties();
        settings.put("bootstrap.servers", words[0]);
        settings.put("fetch.max.wait.ms", words[3]);
        settings.put("group.id", "stock-waits");
        settings.put("enable.auto.commit", "false");
        settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
        for (int round = 0; round < 2; round++) { // the first one compiles
            long began = System.nanoTime();
            double polling = 0, asking = 0, askingAtEnds = 0;
            int polls = 0;
            long records = 0;
            for (int index = 0; index < partitions; index++) {
                List<TopicPartition> one = List.of(new TopicPartition(topic, index));
                try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings)) {
                    consumer.assign(one);
                    consumer.seekToEnd(one);
                    long end = consumer.position(one.get(0));
                    for (long offset = 0; offset < end; polls++) {
                        consumer.seek(one.get(0), offset);
                        long at = System.nanoTime();
                        records += consumer.poll(Duration.ofMinutes(2)).count();
                        polling += since(at);
                        offset = consumer.position(one.get(0));
                        at = System.nanoTime();
                        consumer.seekToBeginning(one);
                        consumer.position(one.get(0));
                        consumer.seekToEnd(one);
                        consumer.position(one.get(0));
                        asking += since(at);
                        askingAtEnds += offset < end ? 0 : since(at);
                    }
                }
            }
            if (round == 1) {
                System.out.printf(
                        Locale.ROOT,
                        "%d records in %.0f ms: %d polls %.0f, offsets %.0f, of that at ends %.0f%n",
                        records, since(began), polls, polling, asking, askingAtEnds);
            }
        }
    }
}
