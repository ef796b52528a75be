"""What a stream reads next, asked as Spark asks it, without Spark."""

import logging

import pytest

from support.spark_story import write
from tidelog.client import Admin, NewTopic
from tidelog.client.groups import GroupAdmin
from tidelog.client.offsets import trim
from tidelog.spark.connection import close_all
from tidelog.spark.failure import DataLoss, TidelogError
from tidelog.spark.lookup import Lookup
from tidelog.spark.ranges import OffsetRange
from tidelog.spark.source_options import source_options
from tidelog.spark.stream_plan import StreamPlan


@pytest.fixture(scope="module", autouse=True)
def connections():
    yield
    close_all()


class WatchedLookup(Lookup):
    """Counts questions; the broker it asks may not have heard of some partitions yet."""

    __slots__ = ("questions", "unheard")

    def __init__(self, options):
        super().__init__(options)
        self.questions = 0
        self.unheard = set()

    def ask(self, work):
        self.questions += 1
        return super().ask(work)

    def seen(self):
        seen = super().seen()
        return seen._replace(partitions=seen.partitions - self.unheard)


class Hand:
    """A clock that stands still until it is moved."""

    def __init__(self):
        self.now_ms = 0.0

    def __call__(self):
        return self.now_ms


class Started:
    """A plan as a query has it after a start; a second one is a restart."""

    def __init__(self, cluster, **options):
        values = {"kafka.bootstrap.servers": cluster.bootstrap_servers}
        values |= {name.replace("__", "."): value for name, value in options.items()}
        options = source_options(values, streaming=True)
        self.clock = Hand()
        self.lookup = WatchedLookup(options)
        self.plan = StreamPlan(options, self.lookup, self.clock)

    def later(self, ms=5_000):
        """What the cluster has said before is not good any more."""
        self.clock.now_ms += ms
        return self.plan

    def next_end(self, start, *, limited=True):
        return self.later().latest(start, limited=limited)


def change(cluster, work):
    async def ask(client):
        return await work(client)

    return cluster.ask(ask)


# ---- where it starts ----


def test_a_start_stays_the_same_while_the_query_runs(cluster):
    topic = cluster.topic("stays")
    write(cluster, topic, range(3))
    query = Started(cluster, subscribe=topic)
    assert query.plan.initial() == {(topic, 0): 3}
    write(cluster, topic, range(3))
    assert query.later().initial() == {(topic, 0): 3}
    assert query.plan.latest({(topic, 0): 3}, limited=True) == {(topic, 0): 6}
    assert query.plan.ranges({(topic, 0): 3}, {(topic, 0): 6}) == [OffsetRange(topic, 0, 3, 6)]


@pytest.mark.parametrize("written_after_the_crash", [0, 4])
def test_a_crash_in_the_first_batch_loses_nothing_with_a_source_id(
    cluster, written_after_the_crash
):
    topic = cluster.topic(f"kept-{written_after_the_crash}")
    write(cluster, topic, range(10))
    first = Started(cluster, subscribe=topic, sourceId=topic)
    start = first.plan.initial()
    write(cluster, topic, range(5))
    end = first.next_end(start)
    assert (start, end) == ({(topic, 0): 10}, {(topic, 0): 15})
    if written_after_the_crash:
        write(cluster, topic, range(written_after_the_crash))

    restarted = Started(cluster, subscribe=topic, sourceId=topic)
    assert restarted.plan.initial() == start
    assert restarted.plan.ranges(start, end) == [OffsetRange(topic, 0, 10, 15)]


@pytest.mark.parametrize("written_after_the_crash", [0, 4])
def test_a_crash_in_the_first_batch_is_an_error_without_a_source_id(
    cluster, written_after_the_crash
):
    topic = cluster.topic(f"unkept-{written_after_the_crash}")
    first = Started(cluster, subscribe=topic)
    start = first.plan.initial()
    write(cluster, topic, range(5))
    end = first.next_end(start)
    if written_after_the_crash:
        write(cluster, topic, range(written_after_the_crash))

    restarted = Started(cluster, subscribe=topic)
    with pytest.raises(TidelogError, match="with a sourceId, under which the start is kept"):
        restarted.plan.ranges(restarted.plan.initial(), end)


def test_a_source_id_that_comes_after_the_crash_does_not_hide_it(cluster):
    topic = cluster.topic("too-late")
    write(cluster, topic, range(5))
    for _ in range(2):
        restarted = Started(cluster, subscribe=topic, sourceId="too-late")
        with pytest.raises(TidelogError, match="where it began is not known"):
            restarted.plan.ranges(restarted.plan.initial(), {(topic, 0): 5})


def test_a_first_batch_without_records_is_no_crash(cluster):
    topic = cluster.topic("quiet")
    query = Started(cluster, subscribe=topic)
    start = query.plan.initial()
    assert query.plan.latest(start, limited=True) == start
    assert query.plan.ranges(start, start) == []


def test_a_kept_start_is_forgotten_when_the_first_batch_is_done(cluster):
    topic = cluster.topic("forgotten")
    first = Started(cluster, subscribe=topic, sourceId="forgotten")
    start = first.plan.initial()
    write(cluster, topic, range(5))
    first.plan.finished(first.next_end(start))
    assert Started(cluster, subscribe=topic, sourceId="forgotten").plan.initial() == {(topic, 0): 5}


def test_a_start_that_was_kept_for_other_options_does_not_count(cluster):
    topic = cluster.topic("other")
    write(cluster, topic, range(5))
    latest = Started(cluster, subscribe=topic, sourceId="other")
    assert latest.plan.initial() == {(topic, 0): 5}
    earliest = Started(cluster, subscribe=topic, sourceId="other", startingOffsets="earliest")
    assert earliest.plan.initial() == {(topic, 0): 0}


def test_a_kept_start_that_is_not_whole_does_not_count(cluster):
    topic = cluster.topic("half", partitions=2)
    Started(cluster, subscribe=topic, sourceId="half").plan.initial()
    Started(cluster, assign='{"half":[0]}', sourceId="half").plan.initial()
    write(cluster, topic, range(5), partition=1)
    restarted = Started(cluster, subscribe=topic, sourceId="half")
    with pytest.raises(TidelogError, match="where it began is not known"):
        restarted.plan.ranges(restarted.plan.initial(), {(topic, 0): 0, (topic, 1): 5})


def test_starts_by_time(cluster):
    topic = cluster.topic("timed", partitions=2)
    write(cluster, topic, range(5))
    assert Started(cluster, subscribe=topic, startingTimestamp="0", **STRATEGY).plan.initial() == {
        (topic, 0): 0,
        (topic, 1): 0,
    }
    future = str(10**13)
    with pytest.raises(TidelogError, match=r"timed-0, timed-1 has nothing at or after 2286-"):
        Started(cluster, subscribe=topic, startingTimestamp=future).plan.initial()
    query = Started(cluster, subscribe=topic, startingTimestamp=future, **STRATEGY)
    assert query.plan.initial() == {(topic, 0): 5, (topic, 1): 0}


STRATEGY = {"startingOffsetsByTimestampStrategy": "latest"}


def test_given_offsets_must_name_the_partitions_and_lie_in_the_log(cluster, caplog):
    topic = cluster.topic("given", partitions=2)
    write(cluster, topic, range(5))

    def started(offsets, **more):
        return Started(cluster, subscribe=topic, startingOffsets=offsets, **more).plan.initial()

    assert started('{"given":{"0":3,"1":-2}}') == {(topic, 0): 3, (topic, 1): 0}
    assert started('{"given":{"0":-1,"1":-2}}') == {(topic, 0): 5, (topic, 1): 0}
    with pytest.raises(TidelogError, match="says nothing of given-1; name every partition"):
        started('{"given":{"0":3}}')
    with pytest.raises(TidelogError, match="names given-7, which is not read"):
        started('{"given":{"0":3,"1":0,"7":0}}')
    beyond = '{"given":{"0":9,"1":0}}'
    with pytest.raises(DataLoss, match="says 9 for given-0, which has 0 to 5"):
        started(beyond)
    assert started(beyond, failOnDataLoss="false") == {(topic, 0): 5, (topic, 1): 0}
    assert "says 9 for given-0" in caplog.text


# ---- how far it goes ----


def test_idle_polling_does_not_hammer_brokers(cluster):
    topic = cluster.topic("idle")
    query = Started(cluster, subscribe=topic, startingOffsets="earliest")
    start = query.plan.initial()
    query.later()
    before = query.lookup.questions
    for _ in range(200):  # two seconds of Spark's polling
        query.clock.now_ms += 10
        query.plan.latest(start, limited=True)
        query.plan.newest()
    assert query.lookup.questions - before <= 2 + 20


def test_a_batch_waits_for_enough_records_and_not_for_ever(cluster):
    topic = cluster.topic("waits")
    query = Started(
        cluster,
        subscribe=topic,
        startingOffsets="earliest",
        minOffsetsPerTrigger="10",
        maxTriggerDelay="60s",
    )
    start = query.plan.initial()
    write(cluster, topic, range(3))
    first = query.next_end(start)
    assert first == {(topic, 0): 3}  # the first batch does not wait, as in the stock connector
    write(cluster, topic, range(4))
    assert query.next_end(first) == first
    query.clock.now_ms += 60_000
    second = query.next_end(first)
    assert second == {(topic, 0): 7}
    write(cluster, topic, range(10))
    assert query.next_end(second) == {(topic, 0): 17}


def test_bytes_limit_a_batch(cluster):
    topic = cluster.topic("heavy")
    for _ in range(10):
        write(cluster, topic, ["x" * 1000] * 10)
    query = Started(
        cluster, subscribe=topic, startingOffsets="earliest", maxBytesPerTrigger="20000"
    )
    end = query.next_end(query.plan.initial())
    assert 10 <= end[topic, 0] <= 25
    assert query.next_end(query.plan.initial(), limited=False) == {(topic, 0): 100}


def test_available_now_ends_where_the_topic_ended_when_it_began(cluster):
    topic = cluster.topic("frozen")
    write(cluster, topic, range(5))
    query = Started(cluster, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="3")
    query.plan.freeze()
    write(cluster, topic, range(5))
    change(cluster, lambda client: Admin(client).add_partitions(topic, 2))
    cluster.wait(lambda: cluster.partition(topic, 1).leader is not None)
    query.later()
    ends = [query.plan.initial()]
    for _ in range(3):
        ends.append(query.next_end(ends[-1]))
    assert ends == [{(topic, 0): each} for each in (0, 3, 5, 5)]


def test_available_now_may_start_after_what_was_there_when_it_was_frozen(cluster):
    topic = cluster.topic("frozen-after")
    for given, start in (("latest", 5), ('{"frozen-after":{"0":8}}', 8)):
        query = Started(cluster, subscribe=topic, startingOffsets=given)
        query.plan.freeze()
        write(cluster, topic, range(5))
        assert query.plan.initial() == query.next_end({(topic, 0): start}) == {(topic, 0): start}


def test_new_partitions_are_read_from_their_beginning(cluster):
    topic = cluster.topic("grows")
    write(cluster, topic, range(3))
    query = Started(cluster, subscribe=topic)
    start = query.plan.initial()
    change(cluster, lambda client: Admin(client).add_partitions(topic, 3))
    cluster.wait(lambda: cluster.partition(topic, 2).leader is not None)
    write(cluster, topic, range(4), partition=2)
    end = query.next_end(start)
    assert end == {(topic, 0): 3, (topic, 1): 0, (topic, 2): 4}
    assert query.plan.ranges(start, end) == [OffsetRange(topic, 2, 0, 4)]


def test_a_pattern_finds_topics_that_come_later_and_never_internal_ones(cluster):
    first = cluster.topic("found-1")
    write(cluster, first, range(2))
    query = Started(cluster, subscribePattern="found-.*|__.*", startingOffsets="earliest")
    start = query.plan.initial()
    assert start == {(first, 0): 0}
    second = cluster.topic("found-2")
    write(cluster, second, range(2))
    assert query.next_end(start) == {(first, 0): 2, (second, 0): 2}


@pytest.mark.parametrize("more", [{}, {"sourceId": "early"}], ids=str)
def test_a_stream_may_start_before_any_topic_matches(cluster, more):
    name = f"early-{len(more)}"
    query = Started(cluster, subscribePattern=f"{name}|arly", startingOffsets="latest", **more)
    start = query.plan.initial()
    assert start == query.next_end(start) == {}
    topic = cluster.topic(name)
    write(cluster, topic, range(3))
    end = query.next_end(start)
    assert end == {(topic, 0): 3}
    assert query.plan.ranges(start, end) == [OffsetRange(topic, 0, 0, 3)]


@pytest.mark.parametrize(
    ("pattern", "words"), [("a(", "subscribePattern is 'a\\('"), ("[a&&b]", "&& is not supported")]
)
def test_a_pattern_that_is_none_is_named(cluster, pattern, words):
    with pytest.raises(TidelogError, match=words):
        Started(cluster, subscribePattern=pattern).plan.initial()


def test_assigned_partitions_alone_are_read(cluster):
    topic = cluster.topic("assigned", partitions=3)
    query = Started(cluster, assign='{"assigned":[0,2]}', startingOffsets="earliest")
    assert query.plan.initial() == {(topic, 0): 0, (topic, 2): 0}
    with pytest.raises(TidelogError, match="names assigned-5, which is not there"):
        Started(cluster, assign='{"assigned":[0,5]}').plan.initial()


# ---- what is not there any more ----


def test_records_that_were_cut_off_while_the_query_was_away_are_a_loss(cluster, caplog):
    topic = cluster.topic("plan-trimmed")
    write(cluster, topic, range(20))
    start, end = {(topic, 0): 5}, {(topic, 0): 20}
    change(cluster, lambda client: trim(client, topic, 0, 12))
    with pytest.raises(DataLoss, match="plan-trimmed-0 was read to 5, and begins at 12 now"):
        Started(cluster, subscribe=topic).plan.ranges(start, end)
    lenient = Started(cluster, subscribe=topic, failOnDataLoss="false")
    assert lenient.plan.ranges(start, end) == [OffsetRange(topic, 0, 12, 20)]
    assert "begins at 12 now; failOnDataLoss=false" in caplog.text


def recreated(cluster, topic):
    async def again(client):
        await Admin(client).delete_topic(topic)
        await Admin(client).create_topic(NewTopic(topic, 1))

    old = cluster.ask(lambda client: client.topic(topic)).topic_id
    change(cluster, again)

    def is_new():
        found = cluster.ask(lambda client: client.topics([topic]))[topic]
        led = found.partitions and found.partitions[0].leader is not None
        return not found.error and found.topic_id != old and led

    cluster.wait(is_new)


def test_a_topic_that_was_made_again_is_a_loss_even_with_as_many_records(cluster):
    topic = cluster.topic("again")
    write(cluster, topic, range(5))
    strict = Started(cluster, subscribe=topic, startingOffsets="earliest")
    lenient = Started(cluster, subscribe=topic, startingOffsets="earliest", failOnDataLoss="false")
    for query in (strict, lenient):
        query.plan.initial()
        assert query.next_end({(topic, 0): 3}) == {(topic, 0): 5}
    recreated(cluster, topic)
    write(cluster, topic, range(7))
    with pytest.raises(DataLoss, match="the topic again was deleted and made again"):
        strict.next_end({(topic, 0): 5})
    end = lenient.next_end({(topic, 0): 5})
    assert lenient.plan.ranges({(topic, 0): 5}, end) == [OffsetRange(topic, 0, 0, 7)]
    write(cluster, topic, range(2))
    end = lenient.next_end({(topic, 0): 7})
    assert lenient.plan.ranges({(topic, 0): 7}, end) == [OffsetRange(topic, 0, 7, 9)]


def test_a_topic_that_was_made_again_is_read_once_whatever_its_numbers_are(cluster):
    topic = cluster.topic("same-numbers")
    write(cluster, topic, range(5))
    query = Started(cluster, subscribe=topic, startingOffsets="earliest", failOnDataLoss="false")
    first = query.next_end(query.plan.initial())
    query.plan.ranges(query.plan.initial(), first)
    recreated(cluster, topic)
    write(cluster, topic, range(5))
    assert query.next_end(first) == first  # Spark sees nothing new yet
    write(cluster, topic, range(2))
    end = query.next_end(first)
    assert query.plan.ranges(first, end) == [OffsetRange(topic, 0, 0, 7)]
    recreated(cluster, topic)
    write(cluster, topic, range(9))
    later = query.next_end(end)
    assert query.plan.ranges(end, later) == [OffsetRange(topic, 0, 0, 9)]
    write(cluster, topic, range(1))
    assert query.plan.ranges(later, query.next_end(later)) == [OffsetRange(topic, 0, 9, 10)]


def test_a_topic_that_was_made_again_takes_the_kept_start_with_it(cluster):
    topic = cluster.topic("again-first")
    given = {"subscribe": topic, "sourceId": "again-first"}
    first = Started(cluster, **given)
    start = first.plan.initial()
    write(cluster, topic, range(5))
    end = first.next_end(start)
    recreated(cluster, topic)
    restarted = Started(cluster, **given)
    with pytest.raises(TidelogError, match="where it began is not known"):
        restarted.plan.ranges(restarted.plan.initial(), end)


def test_a_broker_that_lags_behind_does_not_look_like_a_loss(cluster):
    topic = cluster.topic("lagging", partitions=2)
    query = Started(cluster, subscribe=topic, startingOffsets="earliest")
    start = query.plan.initial()
    write(cluster, topic, range(3))
    query.lookup.unheard.add((topic, 1))
    assert query.next_end(start) == {(topic, 0): 3, (topic, 1): 0}


def test_a_topic_that_ends_before_the_checkpoint_is_a_loss(cluster):
    topic = cluster.topic("shorter")
    write(cluster, topic, range(3))
    with pytest.raises(DataLoss, match="shorter-0 was read to 50, and ends at 3 now"):
        Started(cluster, subscribe=topic).next_end({(topic, 0): 50})
    lenient = Started(cluster, subscribe=topic, failOnDataLoss="false")
    end = lenient.next_end({(topic, 0): 50})
    assert end == {(topic, 0): 3}
    assert lenient.plan.ranges({(topic, 0): 50}, end) == []


def test_a_topic_that_was_deleted_is_a_loss_and_the_others_go_on(cluster):
    gone, left = cluster.topic("gone"), cluster.topic("plan-left")
    write(cluster, left, range(2))
    queries = [
        Started(
            cluster, subscribe=f"{gone},{left}", startingOffsets="earliest", failOnDataLoss=fail
        )
        for fail in ("true", "false")
    ]
    for query in queries:
        query.plan.initial()
    change(cluster, lambda client: Admin(client).delete_topic(gone))
    start = {(gone, 0): 0, (left, 0): 0}
    cluster.wait(lambda: queries[0].next_end(start) == {(left, 0): 2})
    with pytest.raises(DataLoss, match="gone-0 was read before and is not there any more"):
        queries[0].plan.ranges(start, {(left, 0): 2})
    assert queries[1].next_end(start) == {(left, 0): 2}
    assert queries[1].plan.ranges(start, {(left, 0): 2}) == [OffsetRange(left, 0, 0, 2)]


def test_a_batch_that_runs_backwards_is_refused_whatever_may_be_lost(cluster):
    topic = cluster.topic("backwards")
    write(cluster, topic, range(9))
    query = Started(cluster, subscribe=topic, failOnDataLoss="false")
    with pytest.raises(TidelogError, match="backwards-0 is from 8 to 5, which is backwards"):
        query.plan.ranges({(topic, 0): 8}, {(topic, 0): 5})


# ---- what others see ----


def test_progress_is_committed_for_lag_tools_when_asked_for(cluster):
    topic = cluster.topic("committed")
    write(cluster, topic, range(5))
    query = Started(
        cluster,
        subscribe=topic,
        startingOffsets="earliest",
        kafka__group__id="dashboards",
        commitOffsets="true",
    )
    query.plan.finished(query.next_end(query.plan.initial()))
    committed = change(cluster, lambda client: GroupAdmin(client).committed("dashboards"))
    assert {where: each.offset for where, each in committed.items()} == {(topic, 0): 5}


def test_brokers_that_cannot_be_reached_are_one_line(cluster, caplog):
    caplog.set_level(logging.CRITICAL)
    values = {
        "kafka.bootstrap.servers": "127.0.0.1:1",
        "subscribe": "t",
        "fetchOffset.numRetries": "1",
        "fetchOffset.retryIntervalMs": "1",
        "kafka.default.api.timeout.ms": "1000",
    }
    options = source_options(values, streaming=True)
    plan = StreamPlan(options, Lookup(options), Hand())
    with pytest.raises(TidelogError, match=r"127\.0\.0\.1:1 cannot be reached") as caught:
        plan.initial()
    assert "\n" not in str(caught.value)
    assert "check kafka.bootstrap.servers" in str(caught.value)
