"""Streams over topics, with a real Spark and a real cluster."""

from support.spark_story import streamed, values_of, write


class CrashError(Exception):
    pass


class Query:
    """Runs a stream until it has read what is there, as often as it is asked to."""

    def __init__(self, spark, cluster, checkpoint, **options):
        self.frame = streamed(spark, cluster, **options)
        self.checkpoint = str(checkpoint)
        self.batches = []

    def run(self, *, fails=False):
        """The values of each micro-batch that has any."""
        seen = []

        def take(frame, _batch_id):
            if fails:
                raise CrashError("in the middle of a batch")
            values = values_of(frame)
            if values:
                seen.append(values)

        query = (
            self.frame.writeStream.foreachBatch(take)
            .option("checkpointLocation", self.checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination(60)
            self.progress = query.recentProgress
        finally:
            query.stop()
        return seen


def test_a_stream_reads_what_is_there_and_goes_on_after_a_restart(spark, cluster, tmp_path):
    topic = cluster.topic("restarts", partitions=2)
    write(cluster, topic, range(10))
    query = Query(spark, cluster, tmp_path, subscribe=topic, startingOffsets="earliest")
    assert query.run() == [list(range(10))]
    write(cluster, topic, range(10, 15), partition=1)
    assert query.run() == [list(range(10, 15))]
    assert query.run() == []


def test_available_now_takes_batches_of_the_size_asked_for(spark, cluster, tmp_path):
    topic = cluster.topic("paced")
    write(cluster, topic, range(10))
    query = Query(
        spark,
        cluster,
        tmp_path,
        subscribe=topic,
        startingOffsets="earliest",
        maxOffsetsPerTrigger="4",
    )
    assert query.run() == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
