"""A member with confluent-kafka: eager, cooperative or KIP-848, as its settings say."""

from confluent_kafka import Consumer, KafkaException, TopicPartition

from e2e.groups.programs.program import Orders, Work, say, told

POLL_S = 0.1
MOST = 200


def commit(consumer: Consumer, topic: str, work: Work) -> None:
    if not work.pending:
        return
    offsets = dict(work.pending)
    places = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
    try:
        done = consumer.commit(offsets=places, asynchronous=False) or []
        for place in done:
            if place.error is not None:
                raise KafkaException(place.error)
    except KafkaException as failure:
        say("refused", error=failure.args[0].name(), offsets=sorted(offsets.items()))
    else:
        work.committed(offsets)


def main() -> None:
    topic, settings = told()
    orders, work = Orders(), Work()
    consumer = Consumer(
        {**settings, "auto.offset.reset": "earliest", "enable.auto.commit": "false"}
    )
    consumer.subscribe(
        [topic],
        on_assign=lambda _, places: work.assigned(each.partition for each in places),
        on_revoke=lambda _, places: work.revoked(each.partition for each in places),
        on_lost=lambda _, places: work.revoked((each.partition for each in places), "lost"),
    )
    say("started")
    while not orders.close.is_set():
        records = []
        for message in consumer.consume(MOST, POLL_S):
            error = message.error()
            if error is None:
                records.append((message.partition(), message.offset(), message.value()))
            else:
                say("error", error=error.name(), text=error.str())
        work.process(records)
        if records:
            orders.obey_hold()
        commit(consumer, topic, work)
    consumer.close()
    say("closed")


main()
