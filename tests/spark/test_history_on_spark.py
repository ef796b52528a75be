"""The checks of a history say the same on Spark as in plain Python."""

import random

import pytest

from support.histories import History
from tidelog.audit.history.checks import check
from tidelog.audit.history.file import as_read_back as as_plain_read_back
from tidelog.audit.history.findings import ANOMALIES
from tidelog.audit.history.on_spark import (
    as_history,
    as_read_back,
    as_rows,
    check_on_spark,
    value_number,
)
from tidelog.audit.history.rows import (
    ASSIGN,
    FAIL,
    INFO,
    LOG_START,
    OK,
    POLL,
    READ_BACK,
    SEND,
    SUBSCRIBE,
    BadHistory,
    Row,
)
from tidelog.audit.history.rows import value_number as plain_number


def planted() -> list[Row]:
    """One of everything, and around it what only looks like it."""
    history = History()
    for number in range(20):
        history.sent(number, number, by=f"w{number % 2}")
    history.sent(100, 20).sent(101, 20, by="w9").sent(102, 30)  # one offset twice; never read
    history.sent(103, 12, by="late").sent(104, 11, by="late")  # out of order
    history.sent(105, 40, by="w8", outcome=INFO).sent(106, by="w8", outcome=INFO)
    history.transaction((SEND, 200, 50), (POLL, 200, 50), (SEND, 201, 51), by="own")
    history.transaction((SEND, 202, 52), (SEND, 203, 53), outcome=FAIL, by="gone")
    history.transaction((SEND, 204, 54), (SEND, 205, 49), outcome=INFO, by="half")
    history.transaction((SEND, 301, 60), (POLL, 302, 61), by="a")
    history.transaction((SEND, 302, 61), (POLL, 301, 60), by="b")
    history.polled(*((number, number) for number in range(20)), by="r0")
    history.polled((0, 0), (1, 1), (5, 5), by="r1").polled((9, 9), by="r1").polled((3, 3), by="r1")
    history.subscribed("r2").polled((3, 3), by="r2").polled((9, 9), by="r2").assigned("r2")
    history.polled((1, 1), by="r2").polled((2, 2), (2, 2), by="r2")
    history.polled((52, 202), (54, 204), (70, 7), (71, 999), by="r3")
    history.polled((5, 401), partition=1, by="r4").sent(401, 5, partition=1, by="w7")
    history.sent(402, 2, partition=1, by="w6").log_start(3, partition=1).healed()
    history.drained((50, 200), (51, 201), (53, 203), (60, 301), (61, 302))
    return history.rows


def rows_of_chance(number: int) -> list[Row]:
    """Few clients, few offsets and few values: everything meets everything."""
    chance = random.Random(number)
    ops = [SEND, SEND, POLL, POLL, POLL, READ_BACK, ASSIGN, SUBSCRIBE]
    written: set[tuple[int, int]] = set()
    steps: set[tuple[str, int, int]] = set()
    topic = f"topic-{number:03}"
    rows = []
    for _ in range(chance.randrange(40)):
        client, operation, step, partition, offset, value = (
            f"{chance.choice('abc')}-{number:03}",
            chance.randrange(6),
            chance.randrange(3),
            chance.randrange(2),
            chance.randrange(6),
            chance.randrange(6),
        )
        op = chance.choice(ops)
        if (client, operation, step) in steps or (op == SEND and (partition, value) in written):
            continue
        steps.add((client, operation, step))
        if op == SEND:
            written.add((partition, value))
        times = (chance.randrange(9), chance.choice([None, 3, 9]))
        place = (topic, partition, offset, None, value)
        outcome, transaction = chance.choice([OK, OK, FAIL, INFO]), chance.choice([None, "t"])
        rows.append(Row(client, operation, step, op, *times, *place, outcome, transaction))
    if chance.random() < 0.3:
        rows += [row._replace(topic=topic) for row in History().log_start(2).rows]
    return rows


@pytest.mark.long
def test_histories_with_every_anomaly_are_judged_alike_by_both(spark):
    """Many at once: each has its own topic and clients, so they do not touch each other."""
    rows = planted()
    assert set(check(rows).counts) == set(ANOMALIES) - {"unseen", "int-nonmonotonic-send"}
    rows += [row for number in range(400) for row in rows_of_chance(number)]
    plain = check(rows, shown=len(rows))
    assert set(plain.counts) == set(ANOMALIES)
    on_spark = check_on_spark(as_rows(spark, rows), shown=len(rows))
    assert on_spark.totals == plain.totals
    for ours, theirs in zip(on_spark.shown, plain.shown, strict=True):
        assert ours == theirs
    assert on_spark.as_document() == plain.as_document()


@pytest.mark.parametrize(
    "history",
    [History().sent(1, 0).sent(1, 5), History().row(op="shout"), History().row(op=LOG_START)],
)
def test_what_is_no_history_is_refused_with_the_same_words(spark, history):
    with pytest.raises(BadHistory) as plain:
        check(history.rows)
    with pytest.raises(BadHistory) as on_spark:
        check_on_spark(as_rows(spark, history.rows))
    assert str(on_spark.value) == str(plain.value)


def test_spark_knows_a_value_by_the_same_number(spark):
    values = [b"", b"writer-1:17:...", bytes(range(256)), None]
    table = spark.createDataFrame([(value,) for value in values], "value binary")
    numbers = [row[0] for row in table.select(value_number(table["value"])).collect()]
    assert numbers == [plain_number(value) for value in values]


def test_a_read_back_is_a_table_or_the_last_read_of_a_history(spark):
    table = spark.createDataFrame(
        [("orders", 0, 7, 1)], "topic string, partition int, offset long, value long"
    )
    (row,) = as_read_back(table, "found").collect()
    assert tuple(row) == tuple(as_plain_read_back([("orders", 0, 7, 1)])[0])
    with pytest.raises(BadHistory, match="found has no column offset"):
        as_read_back(table.drop("offset"), "found")
    with pytest.raises(BadHistory, match="found is a history without a read-back"):
        as_read_back(as_rows(spark, History().sent(1, 0).rows), "found")
    with pytest.raises(BadHistory, match="found has no column client"):
        as_history(table, "found")
