"""Every check of a history as DataFrames, for histories that do not fit into one process.

The same findings as `checks`, row for row. Where a check there walks along the rows, a window does
it here; where it looks a value up, a join does. Only the graph of transactions that read from each
other comes to the driver.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as f
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from tidelog.audit.history.checks import found_circles
from tidelog.audit.history.cycles import Edge
from tidelog.audit.history.file import READ_BACK_CLIENT, REQUIRED
from tidelog.audit.history.findings import (
    ABORTED_READ,
    ANOMALIES,
    DUPLICATE,
    INCONSISTENT_OFFSETS,
    INT_NONMONOTONIC_POLL,
    INT_NONMONOTONIC_SEND,
    INT_POLL_SKIP,
    LOST_WRITE,
    NONMONOTONIC_POLL,
    NONMONOTONIC_SEND,
    POLL_SKIP,
    PRECOMMITTED_READ,
    SHOWN_OF_EACH,
    UNSEEN,
    WRITE_READ_CYCLE,
    Finding,
    Findings,
    Totals,
)
from tidelog.audit.history.rows import (
    ASSIGN,
    DIGITS,
    FAIL,
    HEALED,
    INFO,
    LOG_START,
    OK,
    OPS,
    OUTCOMES,
    POLL,
    READ_BACK,
    SEND,
    SUBSCRIBE,
    BadHistory,
    Row,
    words_of_malformed,
    words_of_repeated,
)

TEXT, NUMBER, LONG = StringType(), IntegerType(), LongType()
TYPES: dict[str, DataType] = {
    "client": TEXT,
    "operation": LONG,
    "step": NUMBER,
    "op": TEXT,
    "invoke_us": LONG,
    "complete_us": LONG,
    "topic": TEXT,
    "partition": NUMBER,
    "offset": LONG,
    "key": BinaryType(),
    "value": LONG,
    "outcome": TEXT,
    "transaction": TEXT,
}
SCHEMA = StructType([StructField(name, TYPES[name]) for name in Row._fields])
PLACE = ["topic", "partition"]
VALUE_AT = ["topic", "partition", "value"]
NAME = ["client", "operation"]


def as_history(table: DataFrame, where: str) -> DataFrame:
    """The columns of a history in order and with their types; BadHistory if one is missing."""
    missing = [name for name in Row._fields if name not in table.columns]
    if missing:
        fields = ", ".join(Row._fields)
        raise BadHistory(f"{where} has no column {missing[0]}; a history has {fields}")
    return table.select(*(f.col(name).cast(TYPES[name]).alias(name) for name in Row._fields))


def as_read_back(found: DataFrame, where: str) -> DataFrame:
    """Records with topic, partition, offset and value (their number) as rows; those of a last
    read alone, if it is a history."""
    if "op" in found.columns:
        last = as_history(found, where).where(f.col("op") == READ_BACK)
        if last.isEmpty():
            raise BadHistory(f"{where} is a history without a {READ_BACK}")
        return last
    missing = [name for name in (*VALUE_AT, "offset") if name not in found.columns]
    if missing:
        raise BadHistory(f"{where} has no column {missing[0]}")
    fixed = {
        "client": f.lit(READ_BACK_CLIENT),
        "operation": f.lit(0),
        "step": f.lit(0),
        "op": f.lit(READ_BACK),
        "invoke_us": f.lit(0),
        "outcome": f.lit(OK),
    }
    given = {name: f.col(name) for name in (*VALUE_AT, "offset")}
    columns = {**dict.fromkeys(Row._fields, f.lit(None)), **fixed, **given}
    return found.select(*(columns[name].cast(TYPES[name]).alias(name) for name in Row._fields))


def value_number(value: Column) -> Column:
    """As `rows.value_number`."""
    digest = f.sha2(f.coalesce(value, f.lit(b"")), 256)
    return f.conv(f.substring(digest, 1, DIGITS), 16, 10).cast(LONG)


def as_rows(spark: SparkSession, rows: list[Row]) -> DataFrame:
    return spark.createDataFrame([tuple(row) for row in rows], SCHEMA)


def check_on_spark(history: DataFrame, *, shown: int = SHOWN_OF_EACH) -> Findings:
    """Everything that is wrong with a history; BadHistory if it is none."""
    with _kept(history) as rows:
        _refuse(rows)
        with _kept(_matched(rows)) as matched, _kept(_placed(rows)) as placed:
            found = reduce(
                DataFrame.unionByName,
                [
                    _inconsistent_offsets(placed),
                    _unread_writes(rows, matched),
                    _duplicates(placed),
                    _aborted_reads(matched),
                    _precommitted_reads(rows),
                    _wrong_moves(rows, placed),
                    _nonmonotonic_sends(rows),
                ],
            )
            return _gathered(_totals(rows, matched), found, _edges(rows), shown)


@contextmanager
def _kept(table: DataFrame) -> Iterator[DataFrame]:
    """It is looked at more than once."""
    kept = table.persist()
    try:
        yield kept
    finally:
        kept.unpersist()


# ---- what is no history ----


def _refuse(rows: DataFrame) -> None:
    malformed = rows.where(~_is_whole()).count()
    if malformed:
        raise BadHistory(words_of_malformed(malformed))
    written = _sends(rows).groupBy(*VALUE_AT).count()
    repeated = written.agg(f.sum(f.col("count") - 1)).first()
    if repeated is not None and repeated[0]:
        raise BadHistory(words_of_repeated(int(repeated[0])))


def _is_whole() -> Column:
    op = f.col("op")
    required = reduce(Column.__and__, [f.col(name).isNotNull() for name in REQUIRED])
    placed = f.col("topic").isNotNull() & f.col("partition").isNotNull()
    valued, told = f.col("value").isNotNull(), f.col("offset").isNotNull()
    by_op = (
        f.when(op == SEND, placed & valued)
        .when(op.isin(POLL, READ_BACK) & f.col("topic").isNotNull(), placed & valued & told)
        .when(op == LOG_START, placed & told)
        .otherwise(f.lit(True))
    )
    known = op.isin(*OPS) & f.col("outcome").isin(*OUTCOMES)
    return f.coalesce(required & known & by_op, f.lit(False))


# ---- tables that several checks share ----


def _sends(rows: DataFrame) -> DataFrame:
    return rows.where(f.col("op") == SEND)


def _reads(rows: DataFrame) -> DataFrame:
    seen = f.col("op").isin(POLL, READ_BACK) & (f.col("outcome") == OK)
    return rows.where(seen & f.col("offset").isNotNull())


def _polls(rows: DataFrame) -> DataFrame:
    return _reads(rows).where(f.col("op") == POLL)


def _starts(rows: DataFrame) -> DataFrame:
    """Log starts, for the partitions that have one."""
    starts = rows.where(f.col("op") == LOG_START).groupBy(*PLACE)
    return f.broadcast(starts.agg(f.max("offset").alias("start")))


def _matched(rows: DataFrame) -> DataFrame:
    """Every value once: who wrote it, if anybody did, and who read it first, if anybody did."""
    polled_us = f.when(f.col("op") == POLL, f.col("complete_us"))
    by_value = (
        _reads(rows)
        .groupBy(*VALUE_AT)
        .agg(
            f.min(f.struct(*NAME, "step", "offset")).alias("reader"),
            f.min(polled_us).alias("polled_us"),
        )
    )
    written = _sends(rows).select(
        *VALUE_AT, *NAME, "offset", "outcome", "transaction", "complete_us"
    )
    return written.join(by_value, VALUE_AT, "full_outer")


def _placed(rows: DataFrame) -> DataFrame:
    """What was told or seen to lie at each offset, and by whom first."""
    acknowledged = _sends(rows).where((f.col("outcome") == OK) & f.col("offset").isNotNull())
    return (
        _reads(rows)
        .unionByName(acknowledged)
        .groupBy(*PLACE, "offset", "value")
        .agg(f.min(f.struct(*NAME, "step")).alias("by"))
    )


def _findings(table: DataFrame, anomaly: str | Column, *, other: Column | None = None) -> DataFrame:
    """The columns of `Finding`, out of a table that has them all but these."""
    kind = f.lit(anomaly) if isinstance(anomaly, str) else anomaly
    last = f.lit(None) if other is None else other
    return table.select(
        kind.alias("anomaly"),
        *PLACE,
        "offset",
        *NAME,
        "value",
        last.cast(LONG).alias("other"),
    )


# ---- one anomaly each ----


def _inconsistent_offsets(placed: DataFrame) -> DataFrame:
    wrong = (
        placed.groupBy(*PLACE, "offset")
        .agg(
            f.min("value").alias("value"),
            f.max("value").alias("largest"),
            f.min("by").alias("by"),
        )
        .where(f.col("value") != f.col("largest"))
    )
    return _findings(wrong.select("*", "by.client", "by.operation"), INCONSISTENT_OFFSETS,
                     other=f.col("largest"))  # fmt: skip


def _unread_writes(rows: DataFrame, matched: DataFrame) -> DataFrame:
    furthest = f.broadcast(_reads(rows).groupBy(*PLACE).agg(f.max("offset").alias("furthest")))
    in_doubt = (f.col("outcome") == INFO) & f.col("transaction").isNotNull()
    committed = matched.where(in_doubt & f.col("reader").isNotNull()).select(*NAME).distinct()
    unread = (
        matched.where(f.col("client").isNotNull() & f.col("reader").isNull())
        .join(committed.withColumn("committed", f.lit(True)), NAME, "left")
        .join(furthest, PLACE, "left")
        .join(_starts(rows), PLACE, "left")
        .where(f.coalesce(f.col("offset") >= f.col("start"), f.lit(True)))
    )
    surely = (f.col("outcome") == OK) | (
        (f.col("outcome") == INFO) & f.coalesce(f.col("committed"), f.lit(False))
    )
    passed = f.coalesce(f.col("offset") <= f.col("furthest"), f.lit(False))
    kind = f.when(surely & passed, LOST_WRITE).when(f.col("outcome") == OK, UNSEEN)
    other = f.when(f.col("anomaly") == LOST_WRITE, f.col("furthest"))
    named = unread.withColumn("anomaly", kind).where(f.col("anomaly").isNotNull())
    return _findings(named, f.col("anomaly"), other=other)


def _duplicates(placed: DataFrame) -> DataFrame:
    first = f.min("offset").over(Window.partitionBy(*VALUE_AT))
    again = (
        placed.withColumn("first", first)
        .where(f.col("offset") != f.col("first"))
        .select("*", "by.client", "by.operation")
    )
    return _findings(again, DUPLICATE, other=f.col("first"))


def _aborted_reads(matched: DataFrame) -> DataFrame:
    seen = matched.where((f.col("outcome") == FAIL) & f.col("reader").isNotNull())
    readers = seen.select(*VALUE_AT, "reader.client", "reader.operation", "reader.offset")
    return _findings(readers, ABORTED_READ)


def _precommitted_reads(rows: DataFrame) -> DataFrame:
    in_transaction = _polls(rows).where(f.col("transaction").isNotNull())
    sent = _sends(rows).select(*NAME, *VALUE_AT, f.col("step").alias("sent_at"))
    own = in_transaction.join(sent, [*NAME, *VALUE_AT]).where(f.col("sent_at") < f.col("step"))
    return _findings(own, PRECOMMITTED_READ)


def _wrong_moves(rows: DataFrame, placed: DataFrame) -> DataFrame:
    """`known` counts the records up to an offset that were not deleted: two polls in a row
    whose counts differ by more than the later one have skipped something."""
    chooses = f.col("op").isin(ASSIGN, SUBSCRIBE)
    steps = ["operation", "step", "offset", "op", "value"]
    so_far = (
        Window.partitionBy("client")
        .orderBy(*steps)
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    counted = (
        placed.select(*PLACE, "offset")
        .distinct()
        .join(_starts(rows), PLACE, "left")
        .withColumn("counts", f.coalesce(f.col("offset") >= f.col("start"), f.lit(True)))
        .withColumn("counts", f.col("counts").cast(NUMBER))
        .withColumn("known", f.sum("counts").over(Window.partitionBy(*PLACE).orderBy("offset")))
    )
    moves = Window.partitionBy("client", "choice", *PLACE).orderBy(*steps)
    walked = (
        rows.where(f.col("op").isin(POLL, ASSIGN, SUBSCRIBE))
        .withColumn("choice", f.sum(chooses.cast(NUMBER)).over(so_far))
        .withColumn("mode", f.last(f.when(chooses, f.col("op")), ignorenulls=True).over(so_far))
        .transform(_polls)
        .join(counted, [*PLACE, "offset"])
        .withColumn("before", f.lag("offset").over(moves))
        .withColumn("inside", f.lag("operation").over(moves) == f.col("operation"))
        .withColumn("passed", f.col("known") - f.col("counts") - f.lag("known").over(moves))
        .where(f.col("before").isNotNull())
    )
    excused = (f.col("mode") == SUBSCRIBE) & ~f.col("inside")
    back, over = f.col("offset") <= f.col("before"), f.col("passed") > 0
    kind = (
        f.when(f.coalesce(excused, f.lit(False)), None)
        .when(back, f.when(f.col("inside"), INT_NONMONOTONIC_POLL).otherwise(NONMONOTONIC_POLL))
        .when(over, f.when(f.col("inside"), INT_POLL_SKIP).otherwise(POLL_SKIP))
    )
    wrong = walked.withColumn("anomaly", kind).where(f.col("anomaly").isNotNull())
    return _findings(wrong, f.col("anomaly"), other=f.col("before"))


def _nonmonotonic_sends(rows: DataFrame) -> DataFrame:
    order = Window.partitionBy("client", *PLACE).orderBy("operation", "step", "offset", "value")
    back = (
        _sends(rows)
        .where((f.col("outcome") == OK) & f.col("offset").isNotNull())
        .withColumn("before", f.lag("offset").over(order))
        .withColumn("inside", f.lag("operation").over(order) == f.col("operation"))
        .where(f.col("offset") <= f.col("before"))
    )
    kind = f.when(f.col("inside"), INT_NONMONOTONIC_SEND).otherwise(NONMONOTONIC_SEND)
    return _findings(back, kind, other=f.col("before"))


def _edges(rows: DataFrame) -> list[Edge]:
    """From the writer of a value to its reader, where both are transactions."""
    sent = (
        _sends(rows)
        .where(f.col("transaction").isNotNull())
        .select(*VALUE_AT, f.struct(*NAME).alias("writer"))
    )
    edges = (
        _polls(rows)
        .where(f.col("transaction").isNotNull())
        .select(*VALUE_AT, f.struct(*NAME).alias("reader"))
        .join(sent, VALUE_AT)
        .select("writer", "reader")
        .distinct()
    )
    return [(tuple(row["writer"]), tuple(row["reader"])) for row in edges.collect()]


# ---- the sum ----


def _totals(rows: DataFrame, matched: DataFrame) -> Totals:
    written, read = f.col("client").isNotNull(), f.col("reader").isNotNull()
    lag = f.when(f.col("outcome") == OK, f.col("polled_us") - f.col("complete_us"))
    values = matched.agg(
        f.count_if(written),
        f.count_if(f.col("outcome") == OK),
        f.count_if(f.col("outcome") == INFO),
        f.count_if(f.col("outcome") == FAIL),
        f.count_if(written & read),
        f.count_if(~written),
        f.coalesce(f.max(lag), f.lit(0)),
    ).first()
    polled = f.count_if(
        (f.col("op") == POLL) & (f.col("outcome") == OK) & f.col("offset").isNotNull()
    )
    clients = rows.agg(
        polled,
        f.count_if(f.col("op") == READ_BACK),
        f.min(f.when(f.col("op") == HEALED, f.col("invoke_us"))),
    ).first()
    assert values is not None, "an aggregate without a row"
    assert clients is not None, "an aggregate without a row"
    sent, acknowledged, in_doubt, aborted, read_back, foreign, worst_lag_us = values
    return Totals(
        sent=sent,
        acknowledged=acknowledged,
        in_doubt=in_doubt,
        aborted=aborted,
        polled=clients[0],
        read_back=read_back,
        foreign=foreign,
        worst_lag_us=max(0, worst_lag_us),
        drained=clients[1] > 0,
        stuck=_is_stuck(rows, clients[2]),
    )


def _is_stuck(rows: DataFrame, healed_us: int | None) -> bool:
    if healed_us is None:
        return False
    final = rows.where(f.col("op").isin(SEND, POLL) & (f.col("invoke_us") >= healed_us))
    counts = final.agg(f.count("*"), f.count_if(f.col("outcome") == OK)).first()
    return counts is not None and counts[0] > 0 and counts[1] == 0


def _gathered(totals: Totals, found: DataFrame, edges: list[Edge], most: int) -> Findings:
    of_kind = Window.partitionBy("anomaly")
    by_place = [f.asc_nulls_first(name) for name in Finding._fields[1:]]
    first = (
        found.withColumn("total", f.count("*").over(of_kind))
        .withColumn("nth", f.row_number().over(of_kind.orderBy(*by_place)))
        .where(f.col("nth") <= most)
    )
    counts: dict[str, int] = {}
    shown: dict[str, list[Finding]] = {}
    for row in sorted(first.collect(), key=lambda row: row["nth"]):
        counts[row["anomaly"]] = row["total"]
        shown.setdefault(row["anomaly"], []).append(Finding(*row[: len(Finding._fields)]))
    circles = list(found_circles(edges))
    if circles:
        counts[WRITE_READ_CYCLE] = len(circles)
        shown[WRITE_READ_CYCLE] = circles[:most]
    return Findings(
        totals,
        {name: counts[name] for name in ANOMALIES if name in counts},
        [each for name in ANOMALIES for each in shown.get(name, ())],
    )
