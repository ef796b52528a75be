"""Tables that follow changes, without Spark: what tasks write and the driver commits."""

import json
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support import object_store
from support.change_stream import SourceTable
from tidelog.spark.changes import debezium, envelopes, words
from tidelog.spark.changes.buckets import Attempt, Bucket, Following, by_bucket
from tidelog.spark.changes.words import DEBEZIUM, ChangeRules
from tidelog.spark.failure import InvalidOption
from tidelog.spark.pipelines import maintenance
from tidelog.spark.tables.catalogs import open_catalog, table_name
from tidelog.spark.tables.files import open_file
from tidelog.spark.tables.forms import open_table
from tidelog.spark.tables.store_options import store_options
from tidelog.spark.tables.words import BatchId, CatalogTable, Overtaken, Replacement, TableSpec
from tidelog.spark.value_format import json_or_null

ROW = pa.struct([("id", pa.int64()), ("name", pa.string())])
BUCKETS = 3
WEEK_MS = 7 * 24 * 3600 * 1000


def event(op, lsn, before=None, after=None, **more):
    source = {"connector": "postgresql", "lsn": lsn}
    document = {"op": op, "before": before, "after": after, "source": source, **more}
    number = (after or before or {}).get("id")
    return json.dumps({"id": number}).encode(), json.dumps(document).encode()


def row(number, name):
    return {"id": number, "name": name}


def tombstone(number):
    return json.dumps({"id": number}).encode(), None


def records(pairs, kind, *, first=0, topic="t"):
    """As the connector gives them: values are JSON of a type, or bytes."""
    keys, values = zip(*pairs, strict=True)
    raw = pa.array(values, pa.binary())
    value = raw if kind == pa.binary() else json_or_null(raw, kind)
    count = len(pairs)
    columns = {
        "value": value,
        "key": pa.array(keys, pa.binary()),
        "topic": pa.array([topic] * count),
        "partition": pa.array([0] * count, pa.int32()),
        "offset": pa.array(range(first, first + count), pa.int64()),
        "timestamp": pa.array([0] * count, pa.timestamp("us", "UTC")),
        "headers": pa.nulls(
            count, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
        ),
    }
    return pa.RecordBatch.from_pydict(columns)


class Followed:
    """A table, and the batches of one query into it."""

    def __init__(self, spec, rules, kind):
        self.spec = spec
        self.rules = rules
        self.kind = kind
        self.number = 0
        self.offset = 0
        self.schema = envelopes.table_columns(envelopes.row_schema(kind, rules))
        open_table(spec).prepare(self.schema)

    def written(self, pairs, *, now_ms=0):
        """What tasks have written for a batch, and nobody has committed."""
        given = records(pairs, self.kind, first=self.offset)
        changes = envelopes.changes_of(given, self.rules)
        assert not changes[envelopes.REASON].is_valid().to_pylist().count(True), changes.to_pylist()
        there = open_table(self.spec).files()
        following = Following(self.spec, self.rules, self.schema)
        attempt = Attempt(BatchId("q", self.number), 0, now_ms, now_ms - WEEK_MS)
        removed, added = [], []
        for number, some in by_bucket([changes]):
            place = ((words.BUCKET, str(number)),)
            bucket = Bucket(number, tuple(each for each in there if each.values == place))
            done = following.follow(bucket, some, attempt)
            if done is not None:
                removed += done.removed
                added += done.added
        return Replacement(attempt.batch, tuple(removed), tuple(added))

    def follow(self, *pairs, now_ms=0):
        done = self.written(pairs, now_ms=now_ms)
        self.number += 1
        self.offset += len(pairs)
        if done.added:
            assert open_table(self.spec).replace(done)
        return done

    def rows(self):
        found = []
        for file in open_table(self.spec).files():
            with open_file(self.spec, file) as source:
                found += pq.read_table(source).to_pylist()
        return found

    def names(self):
        found = {each["id"]: each["name"] for each in self.rows()}
        assert len(found) == len(self.rows()), "a key has one row"
        return found


@pytest.fixture(params=["delta", "iceberg"])
def spec(request, tmp_path):
    return TableSpec(str(tmp_path / "table"), request.param, (words.BUCKET,))


@pytest.fixture
def customers(spec):
    rules = ChangeRules(DEBEZIUM, ("id",), buckets=BUCKETS)
    return Followed(spec, rules, debezium.json_type(ROW))


def test_a_row_is_what_its_last_change_says_however_late_others_come(customers):
    customers.follow(
        event("r", 10, after=row(1, "ann")),
        event("c", 20, after=row(2, "bob")),
        event("u", 30, row(1, "ann"), row(1, "anna")),
        event("d", 40, row(2, "bob")),
        tombstone(2),
    )
    assert customers.names() == {1: "anna"}
    nothing = customers.follow(
        event("u", 25, row(1, "ann"), row(1, "late")), event("c", 35, after=row(2, "late"))
    )
    assert customers.names() == {1: "anna"}
    assert len(nothing.added) == 1, "that something came late is remembered of rows, for tombstones"
    customers.follow(event("c", 50, after=row(2, "bo")), tombstone(1))
    assert customers.names() == {1: "anna", 2: "bo"}, "the tombstone belongs to what came late"


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_a_table_in_an_object_store_follows_and_is_put_in_order(form, tmp_path):
    """Its memory stays as long as the files that it belongs to, and goes with them."""
    with object_store.running_or_skipped(tmp_path / "store") as store:
        catalog = CatalogTable(f"sqlite:///{tmp_path}/catalog.db", "shop.customers")
        options = store_options("s3", store.options)
        place = TableSpec(store.place("customers"), form, (words.BUCKET,), options)
        spec = place._replace(catalog=catalog if form == "iceberg" else None)
        customers = Followed(
            spec, ChangeRules(DEBEZIUM, ("id",), buckets=1), debezium.json_type(ROW)
        )
        customers.follow(event("c", 10, after=row(1, "ann")), event("d", 20, row(2, "bob")))
        customers.follow(event("u", 30, after=row(1, "anna")))
        limits, now_ms = maintenance.Limits(older_than_ms=0), int(time.time() * 1000) + 2000
        planned = maintenance.plan(spec, limits, now_ms).unused.files
        assert len(planned) == 2, "the file that was replaced, and what was remembered beside it"
        assert maintenance.clear(spec, limits, now_ms).files == planned
        customers.follow(event("c", 15, after=row(2, "late")))
        assert customers.names() == {1: "anna"}


def test_a_deletion_is_forgotten_after_its_time(customers):
    customers.follow(event("c", 1, after=row(1, "ann")), event("d", 5, row(1, "ann")))
    customers.follow(event("c", 2, after=row(4, "dan")), now_ms=WEEK_MS)
    customers.follow(event("u", 3, after=row(1, "late")), now_ms=WEEK_MS)
    assert customers.names().get(1) is None
    for number in range(5, 20):  # every bucket is written anew
        customers.follow(event("c", 9, after=row(number, "x")), now_ms=WEEK_MS + 1)
    customers.follow(event("u", 3, after=row(1, "late")), now_ms=WEEK_MS + 1)
    assert customers.names()[1] == "late"


def test_a_truncation_takes_what_stands_before_it_and_nothing_else(customers):
    customers.follow(*(event("c", each, after=row(each, "x")) for each in range(1, 9)))
    customers.follow(event("t", 6), event("c", 20, after=row(30, "new")))
    assert customers.names() == {7: "x", 8: "x", 30: "new"}
    customers.follow(event("u", 5, after=row(2, "late")))
    assert customers.names() == {7: "x", 8: "x", 30: "new"}


def test_a_batch_that_comes_again_changes_nothing(customers):
    first = [event("c", 1, after=row(1, "ann")), event("c", 2, after=row(2, "bob"))]
    done = customers.written(first)
    again = customers.written(first)
    table = open_table(customers.spec)
    assert table.replace(done)
    assert not table.replace(again)
    assert customers.names() == {1: "ann", 2: "bob"}


def test_a_batch_whose_files_were_replaced_meanwhile_is_not_committed(customers):
    customers.follow(event("c", 1, after=row(1, "ann")))
    mine = customers.written([event("u", 2, after=row(1, "mine"))])
    other = mine._replace(batch=BatchId("other", 0))
    theirs = customers.written([event("u", 3, after=row(1, "theirs"))])
    assert open_table(customers.spec).replace(theirs._replace(batch=BatchId("them", 0)))
    with pytest.raises(Overtaken, match="by another writer"):
        open_table(customers.spec).replace(other)
    customers.follow(event("u", 2, after=row(1, "mine")))
    assert customers.names() == {1: "theirs"}


def test_events_may_have_their_schema_around_them(customers):
    _, value = event("c", 1, after=row(1, "ann"))
    around = json.dumps({"schema": {"type": "struct"}, "payload": json.loads(value)}).encode()
    customers.follow(
        (b'{"schema": {}, "payload": {"id": 1}}', around), event("c", 2, after=row(2, "b"))
    )
    assert customers.names() == {1: "ann", 2: "b"}
    customers.follow((b'{"schema": {}, "payload": {"id": 1}}', None))
    assert customers.names() == {2: "b"}


def test_a_table_is_its_source_after_thousands_of_changes(spec):
    """Inserts, updates, deletes with tombstones, and events that come again too late."""
    fields = [("id", pa.int64()), ("name", pa.string()), ("amount", pa.int64())]
    kind = debezium.json_type(pa.struct([*fields, ("note", pa.string())]))
    table = Followed(spec, ChangeRules(DEBEZIUM, ("id",), buckets=BUCKETS), kind)
    source = SourceTable(seed=3, keys=300)
    events = [(each.key, each.value) for each in source.events(5_000)]
    assert min(source.counts) > 100, source.counts
    while events:
        table.follow(*events[:700])
        events = events[700:]
    names = [*dict(fields), "note"]
    found = {each["id"]: {name: each[name] for name in names} for each in table.rows()}
    assert found == source.rows
    assert len(found) == len(table.rows())


def test_what_iceberg_notes_of_replaced_files_does_not_pile_up(tmp_path):
    """Whoever plans a read or a commit opens every manifest, whatever it has."""
    spec = TableSpec(str(tmp_path / "table"), "iceberg", (words.BUCKET,))
    table = Followed(spec, ChangeRules(buckets=BUCKETS), pa.binary())
    keys = [b"%d" % number for number in range(20)]
    table.follow(*[(key, b"first") for key in keys])
    for number in range(10):
        table.follow((keys[number], b"again"))
    with open_catalog(spec) as catalog:
        known = catalog.load_table(table_name(spec))
        manifests = known.current_snapshot().manifests(known.io)
        assert sum(each.deleted_files_count for each in manifests) == 1, "of the last batch"
        assert len(manifests) <= BUCKETS + 1
        assert known.scan().to_arrow().num_rows == len(keys)


def test_a_compacted_topic_is_followed_by_its_offsets(spec):
    table = Followed(spec, ChangeRules(buckets=BUCKETS), pa.binary())
    table.follow((b"a", b"1"), (b"b", b"2"), (b"a", b"3"))
    table.follow((b"b", None), (b"c", b"4"))
    assert {each["key"]: each["value"] for each in table.rows()} == {b"a": b"3", b"c": b"4"}


def test_a_column_may_say_which_change_is_the_later_one(spec):
    rules = ChangeRules(key=("id",), order_by=("at",), buckets=BUCKETS)
    kind = pa.struct([("id", pa.int64()), ("name", pa.string()), ("at", pa.int64())])
    table = Followed(spec, rules, kind)

    def put(number, name, at):
        return None, json.dumps({"id": number, "name": name, "at": at}).encode()

    table.follow(put(1, "new", 5), put(1, "old", 4), put(2, "b", -3))
    table.follow(put(1, "older", 3), put(2, "c", -2))
    assert table.names() == {1: "new", 2: "c"}


def test_a_table_gets_the_columns_that_changes_have_since(customers):
    customers.follow(event("c", 1, after=row(1, "ann")), event("c", 1, after=row(4, "dan")))
    wider = pa.struct([*ROW, pa.field("city", pa.string())])
    grown = envelopes.table_columns(
        envelopes.row_schema(debezium.json_type(wider), customers.rules)
    )
    open_table(customers.spec).grow(grown)
    again = Followed.__new__(Followed)
    again.spec, again.rules, again.kind = customers.spec, customers.rules, debezium.json_type(wider)
    again.number, again.offset, again.schema = customers.number, customers.offset, grown
    open_table(again.spec).prepare(grown)
    again.follow(event("u", 2, after={**row(1, "anna"), "city": "Rome"}))
    assert again.names() == {1: "anna", 4: "dan"}
    assert {each["id"]: each.get("city") for each in again.rows()} == {1: "Rome", 4: None}


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ({"connector": "postgresql"}, {"connector": "postgresql", "lsn": 9}),
        ({"lsn": 9}, {"lsn": 10}),
        (
            {"connector": "mysql", "file": "bin.000009", "pos": 900, "row": 1},
            {"connector": "mysql", "file": "bin.000010", "pos": 4, "row": 0},
        ),
        (
            {"connector": "mysql", "file": "bin.000009", "pos": 90},
            {"connector": "mysql", "file": "bin.000009", "pos": 100},
        ),
        ({"connector": "oracle", "scn": "999"}, {"connector": "oracle", "scn": "1000"}),
        (
            {"connector": "sqlserver", "commit_lsn": "0027:01", "change_lsn": "0027:01:02"},
            {"connector": "sqlserver", "commit_lsn": "0027:01", "change_lsn": "0027:01:03"},
        ),
        ({"connector": "mongodb", "ts_ms": 999}, {"connector": "mongodb", "ts_ms": 1000}),
    ],
)
def test_the_source_block_says_where_a_change_stands(older, newer):
    from tidelog.spark.changes.positions import SOURCE, of_source

    first, second = of_source(pa.array([older, newer], SOURCE)).to_pylist()
    assert first < second


@pytest.mark.parametrize(
    ("pair", "words_of_it"),
    [
        ((b"1", b'{"op": "x", "after": {"id": 1}}'), "its op says nothing"),
        ((b"1", b"{}"), "its op says nothing"),
        ((b"1", b'{"op": "c"}'), "no row after it"),
        ((None, b'{"op": "c", "after": {"name": "a"}}'), "the record has no key"),
    ],
)
def test_what_is_no_change_is_a_bad_record_with_a_reason(pair, words_of_it):
    rules = ChangeRules(DEBEZIUM, ("id",))
    made = envelopes.changes_of(records([pair], debezium.json_type(ROW)), rules)
    assert words_of_it in made[envelopes.REASON][0].as_py()
    assert made[words.KIND].to_pylist() == [words.BAD]
    assert envelopes.as_records(made)["key"].to_pylist() == [pair[0]]


@pytest.mark.parametrize(
    ("rules", "kind", "said"),
    [
        (ChangeRules(key=("no",)), ROW, "no column no to be known by"),
        (ChangeRules(order_by=("no",)), ROW, "no column no to order"),
        (ChangeRules(DEBEZIUM), ROW, "no change events of Debezium"),
        (ChangeRules(), pa.struct([("key", pa.int64())]), "--key key"),
        (ChangeRules(), pa.struct([("tidelog_topic", pa.string())]), "only we write"),
        (ChangeRules(order_by=("x",)), pa.struct([("x", pa.float64())]), "cannot be ordered"),
    ],
)
def test_rules_that_do_not_fit_the_rows_are_refused(rules, kind, said):
    with pytest.raises(InvalidOption, match=said):
        envelopes.row_schema(kind, rules)
