"""The story: one list of steps that every client performs, as far as it can.

Each step has a topic of its own, so that one that fails leaves the others alone.
"""

import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from e2e.clients.driver import (
    Driver,
    Fetched,
    How,
    NewTopic,
    NotOffered,
    PartitionSeen,
    Record,
    Refused,
    Start,
)

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")

ACKS = ("all", "1", "0")
"""In this order: a leader that has not heard of a new topic yet loses what is sent with acks=0."""
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
BROKERS = {1, 2, 3}
WITHIN_SECONDS = 10.0
UNKNOWN = "UNKNOWN_TOPIC_OR_PARTITION"
FIRST_TIMESTAMP_MS = 1_700_000_000_000


class Stage(NamedTuple):
    """Who acts, and who helps where the actor cannot."""

    driver: Driver
    helper: Driver

    def topic(self, what: str, **wanted: object) -> str:
        """A new topic, made by the actor if it can."""
        topic = NewTopic(unique(self.driver, what), **wanted)  # type: ignore[arg-type] # by name
        try:
            self.driver.create_topic(topic)
        except NotOffered:
            self.helper.create_topic(topic)
        return topic.name


class Step(NamedTuple):
    name: str
    play: Callable[[Stage], None]


STEPS: list[Step] = []


def step(play: Callable[[Stage], None]) -> Callable[[Stage], None]:
    STEPS.append(Step(play.__name__, play))
    return play


def unique(driver: Driver, what: str) -> str:
    return f"{driver.name}-{what}-{os.urandom(3).hex()}"


# -- records


def records_of(
    driver: Driver, case: str, partitions: Iterable[int], first_ms: int = FIRST_TIMESTAMP_MS
) -> list[Record]:
    """A few of each kind: with everything, without key, without value, with other headers."""
    nothing = None if driver.writes_null_headers else b""
    mark = (("case", case.encode()),)
    made = []
    for partition in partitions:
        text = f"{case} {partition} ".encode()
        kinds = (
            (text + b"a key", text + b"a value " * 20, mark),
            (None, text + b"no key", mark),
            (text + b"tombstone", None, mark),
            (text + b"twice", b"", (*mark, ("twice", b"1"), ("twice", b"2"))),
            (b"", text + b"empty key", (*mark, ("of nothing", nothing))),
        )
        for number, (key, value, headers) in enumerate(kinds):
            made.append(Record(partition, key, value, headers, first_ms + number))
    return made


def as_sent(driver: Driver, records: Iterable[Record]) -> list[Record]:
    """What must be read: without a timestamp where the client cannot choose it."""
    return [record if driver.chooses_timestamps else record._replace(timestamp_ms=0)
            for record in records]  # fmt: skip


def as_read(driver: Driver, fetched: Iterable[Fetched]) -> list[Record]:
    return as_sent(driver, (each.record for each in fetched))


def read_all(driver: Driver, topic: str, partition: int, count: int) -> list[Fetched]:
    """Reads until it has so many: nobody says when records with acks=0 have arrived."""
    return until(
        lambda: driver.read(topic, partition, Start("earliest")),
        lambda fetched: len(fetched) >= count,
    )


def until(look: Callable[[], T], good: Callable[[T], bool]) -> T:
    deadline = time.monotonic() + WITHIN_SECONDS
    while True:
        seen = look()
        if good(seen):
            return seen
        assert time.monotonic() < deadline, f"still so after {WITHIN_SECONDS} s: {seen}"
        time.sleep(0.02)


def partitions_of(driver: Driver, topic: str, count: int) -> dict[int, PartitionSeen]:
    """Of a topic that has so many now."""
    return until(
        lambda: described(lambda: driver.partitions(topic)),
        lambda seen: sorted(seen) == list(range(count)),
    )


def described(describe: Callable[[], dict[K, V]]) -> dict[K, V]:
    """Empty if the broker that was asked does not know the topic.

    That a topic was created, extended or deleted is known to the broker that says so. Others hear
    of it by themselves; the documentation of Kafka's `Admin` speaks of several seconds. Clients
    describe topics at any broker, so a program that needs to see the change asks until it does."""
    try:
        return describe()
    except Refused as refused:
        if refused.error != UNKNOWN:
            raise
        return {}


def refusal(act: Callable[[], object]) -> str:
    try:
        result = act()
    except Refused as refused:
        return refused.error
    raise AssertionError(f"it was not refused, and gave {result}")


# -- steps: records


@step
def create_topic(stage: Stage) -> None:
    topic = stage.topic("created")
    seen = partitions_of(stage.driver, topic, 3)
    for partition in seen.values():
        assert set(partition.replicas) == BROKERS == partition.isr
        assert partition.leader == partition.replicas[0]
    assert len({partition.leader for partition in seen.values()}) == 3, "leaders are spread"


@step
def produce_with_every_acks_and_codec(stage: Stage) -> None:
    driver, topic = stage.driver, stage.topic("codecs")
    sent: dict[int, dict[str, list[Record]]] = defaultdict(dict)
    for acks in ACKS:
        for codec in CODECS:
            case = f"{acks}-{codec}"
            records = records_of(driver, case, range(3))
            driver.produce(topic, records, How(acks, codec))
            for partition in range(3):
                mine = [record for record in records if record.partition == partition]
                sent[partition][case] = as_sent(driver, mine)
    for partition, cases in sent.items():
        count = sum(map(len, cases.values()))
        fetched = read_all(driver, topic, partition, count)
        assert [each.offset for each in fetched] == list(range(count))
        read: dict[str, list[Record]] = defaultdict(list)
        for record in as_read(driver, fetched):
            read[str(record.headers[0][1], "ascii")].append(record)  # type: ignore[arg-type] # set
        assert read == cases


@step
def produce_idempotently(stage: Stage) -> None:
    driver, topic = stage.driver, stage.topic("idempotent")
    records = [each for n in range(20) for each in records_of(driver, f"round-{n}", (0,))]
    driver.produce(topic, records, How("all", "lz4", idempotent=True))
    read = driver.read(topic, 0, Start("earliest"))
    assert as_read(driver, read) == as_sent(driver, records)


@step
def create_a_topic_by_producing(stage: Stage) -> None:
    driver, topic = stage.driver, unique(stage.driver, "auto")
    records = records_of(driver, "auto", (0,))
    driver.produce(topic, records, How())
    assert as_read(driver, driver.read(topic, 0, Start("earliest"))) == as_sent(driver, records)


@step
def read_what_is_new(stage: Stage) -> None:
    driver, topic = stage.driver, stage.topic("latest")
    old, new = records_of(driver, "latest", (0,))[:2]
    driver.produce(topic, [old], How())
    fetched = driver.read_new(topic, 0, lambda: driver.produce(topic, [new], How()))
    assert fetched.offset == 1
    assert as_read(driver, [fetched]) == as_sent(driver, [new])


@step
def read_from_a_timestamp(stage: Stage) -> None:
    driver, topic = stage.driver, stage.topic("timestamps")
    for n in range(4):
        driver.produce(topic, records_of(driver, str(n), (0,), FIRST_TIMESTAMP_MS + 10 * n), How())
    everything = driver.read(topic, 0, Start("earliest"))
    middle = everything[12]
    earlier = sum(each.record.timestamp_ms < middle.record.timestamp_ms for each in everything)
    read = driver.read(topic, 0, Start("timestamp", middle.record.timestamp_ms))
    assert read == everything[earlier:]
    if driver.chooses_timestamps:
        assert earlier == 12
        between = driver.read(topic, 0, Start("timestamp", FIRST_TIMESTAMP_MS + 9))
        assert between == everything[5:], "the first that is not older"


@step
def read_from_an_offset(stage: Stage) -> None:
    driver, topic = stage.driver, stage.topic("offsets")
    records = records_of(driver, "offset", (1,))
    driver.produce(topic, records, How("all", "gzip"))
    read = driver.read(topic, 1, Start("offset", 3))  # in the middle of a batch
    assert [each.offset for each in read] == [3, 4]
    assert as_read(driver, read) == as_sent(driver, records[3:])


# -- steps: administration


@step
def describe_cluster(stage: Stage) -> None:
    assert stage.driver.broker_ids() == BROKERS


@step
def describe_and_alter_configs(stage: Stage) -> None:
    driver = stage.driver
    topic = stage.topic("configs", configs={"retention.ms": "3600000"})
    before = until(lambda: described(lambda: driver.configs(topic)), bool)
    assert before["retention.ms"] == "3600000"
    assert before["cleanup.policy"] == "delete"
    driver.set_config(topic, "segment.bytes", "16777216")
    after = until(
        lambda: described(lambda: driver.configs(topic)),
        lambda seen: seen.get("segment.bytes") == "16777216",
    )
    assert after["retention.ms"] == "3600000" or not driver.alters_incrementally


@step
def describe_log_dirs(stage: Stage) -> None:
    driver, topic = stage.driver, stage.topic("logdirs", partitions=1)
    driver.produce(topic, records_of(driver, "log dirs", (0,)), How())
    sizes = until(lambda: driver.log_sizes(topic), lambda seen: all(seen.values()))
    assert sizes.keys() == BROKERS
    assert len(set(sizes.values())) == 1, "acks=all: everybody has the same bytes"


@step
def create_partitions(stage: Stage) -> None:
    driver, topic = stage.driver, stage.topic("grown")
    driver.add_partitions(topic, 5)
    partitions_of(driver, topic, 5)
    records = records_of(driver, "grown", (4,))
    driver.produce(topic, records, How())
    assert as_read(driver, driver.read(topic, 4, Start("earliest"))) == as_sent(driver, records)


@step
def delete_records(stage: Stage) -> None:
    driver, topic = stage.driver, stage.topic("cut")
    driver.produce(topic, records_of(driver, "cut", (0,)), How())
    assert driver.delete_records(topic, 0, 3) == 3
    assert [each.offset for each in driver.read(topic, 0, Start("earliest"))] == [3, 4]


@step
def list_offsets(stage: Stage) -> None:
    driver, topic = stage.driver, stage.topic("listed")
    driver.produce(topic, records_of(driver, "listed", (2,)), How())
    assert driver.offset_at(topic, 2, Start("earliest")) == 0
    assert driver.offset_at(topic, 2, Start("latest")) == 5
    assert driver.offset_at(topic, 1, Start("latest")) == 0
    if driver.chooses_timestamps:
        assert driver.offset_at(topic, 2, Start("timestamp", FIRST_TIMESTAMP_MS + 2)) == 2


@step
def elect_leaders(stage: Stage) -> None:
    topic = stage.topic("elected")
    error = refusal(lambda: stage.driver.elect_preferred(topic, 0))
    assert error == "ELECTION_NOT_NEEDED"


@step
def reassign_partitions(stage: Stage) -> None:
    driver, topic = stage.driver, stage.topic("moved")
    driver.produce(topic, records_of(driver, "moved", (0,)), How())
    first, second, third = partitions_of(driver, topic, 3)[0].replicas
    driver.reassign(topic, 0, (second, third, first))
    until(
        lambda: driver.partitions(topic)[0],
        lambda seen: seen.replicas == (second, third, first),
    )
    driver.elect_preferred(topic, 0)
    until(lambda: driver.partitions(topic)[0].leader, lambda leader: leader == second)
    driver.reassign(topic, 0, (third,))
    alone = PartitionSeen(third, (third,), frozenset({third}))
    until(lambda: driver.partitions(topic)[0], lambda seen: seen == alone)
    assert len(driver.read(topic, 0, Start("earliest"))) == 5, "it brought its records along"


@step
def describe_quorum(stage: Stage) -> None:
    quorum = stage.driver.quorum()
    assert quorum.voters == BROKERS
    assert quorum.leader in BROKERS


@step
def delete_topic(stage: Stage) -> None:
    driver, topic = stage.driver, stage.topic("deleted")
    driver.produce(topic, records_of(driver, "deleted", (0,)), How())
    driver.delete_topic(topic)
    until(lambda: described(lambda: driver.partitions(topic)), lambda seen: not seen)


# -- steps: what is refused


@step
def refuse_an_unknown_topic(stage: Stage) -> None:
    nothing = unique(stage.driver, "unknown")
    assert refusal(lambda: stage.driver.delete_topic(nothing)) == UNKNOWN
    if stage.driver.describes_without_creating:
        assert refusal(lambda: stage.driver.partitions(nothing)) == UNKNOWN


@step
def refuse_to_read_an_unknown_topic(stage: Stage) -> None:
    if not stage.driver.tells_of_unknown_topics:
        raise NotOffered
    nothing = unique(stage.driver, "unread")
    error = refusal(lambda: stage.driver.read(nothing, 0, Start("offset", 0)))
    assert error == UNKNOWN


@step
def refuse_a_wrong_topic_name(stage: Stage) -> None:
    error = refusal(lambda: stage.driver.create_topic(NewTopic("no spaces, please")))
    assert error == "INVALID_TOPIC_EXCEPTION"


@step
def refuse_more_replicas_than_brokers(stage: Stage) -> None:
    topic = NewTopic(unique(stage.driver, "four"), replicas=4)
    error = refusal(lambda: stage.driver.create_topic(topic))
    assert error == "INVALID_REPLICATION_FACTOR"


@step
def refuse_a_wrong_config_value(stage: Stage) -> None:
    driver = stage.driver
    wrong = NewTopic(unique(driver, "wrong"), configs={"retention.ms": "soon"})
    assert refusal(lambda: driver.create_topic(wrong)) == "INVALID_CONFIG"
    topic = stage.topic("right")
    assert refusal(lambda: driver.set_config(topic, "retention.ms", "soon")) == "INVALID_CONFIG"


@step
def refuse_a_record_that_is_too_large(stage: Stage) -> None:
    topic = stage.topic("small", configs={"max.message.bytes": "1000"})
    large = Record(0, None, os.urandom(2000).hex().encode(), (), FIRST_TIMESTAMP_MS)
    error = refusal(lambda: stage.driver.produce(topic, [large], How()))
    assert error == "MESSAGE_TOO_LARGE"


@step
def refuse_a_topic_that_exists(stage: Stage) -> None:
    topic = stage.topic("exists")
    error = refusal(lambda: stage.driver.create_topic(NewTopic(topic)))
    assert error == "TOPIC_ALREADY_EXISTS"
