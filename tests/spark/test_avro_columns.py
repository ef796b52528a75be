"""Avro read column by column, beside the decoder that takes one value after the other."""

import io
import itertools
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidelog.registry.languages.words import AVRO, Schema
from tidelog.spark.failure import TidelogError
from tidelog.spark.registry_values import RegistryValues, ValueReader
from tidelog.spark.schema_types import fit_for, fitted
from tidelog.spark.value_languages import WriterSchema

UNKNOWN_ID = 2**32 - 1


class Schemas(ThreadingHTTPServer):
    """As much of a registry as readers of values ask for."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answering)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.texts = []

    def add(self, schema):
        self.texts.append(json.dumps(schema))
        return len(self.texts) - 1


class Answering(BaseHTTPRequestHandler):
    def do_GET(self):
        number = int(self.path.rpartition("/")[2])
        known = number < len(self.server.texts)
        answer = {"schema": self.server.texts[number]} if known else {"message": "none"}
        self.send_response(200 if known else 404)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def schemas():
    with Schemas() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def record(*fields, name="R"):
    named = [{"name": f"f{index}", "type": each} for index, each in enumerate(fields)]
    return {"type": "record", "name": name, "fields": named}


def body(schema, value):
    written = io.BytesIO()
    fastavro.schemaless_writer(written, fastavro.parse_schema(schema), value)
    return written.getvalue()


def framed(number, data):
    return b"\0" + number.to_bytes(4, "big") + data


def type_of(schema):
    return WriterSchema(Schema(AVRO, json.dumps(schema)), None).type


def check_same(values, kind, data):
    """Both ways of reading; gives how many were read at once."""
    raw = data if isinstance(data, pa.Array) else pa.array(data, pa.binary())
    bad, wanted_bad = {}, {}
    reader = ValueReader(values, kind)
    wanted = reader.one_by_one(raw, wanted_bad)
    found = values.decoded(raw, kind, bad)
    found.validate(full=True)
    assert found.type == wanted.type
    assert repr(found.to_pylist()) == repr(wanted.to_pylist())  # where NaN is NaN
    assert bad == wanted_bad
    return sum(len(rows) for rows, _ in reader.columns(raw))


MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
DATE = {"type": "int", "logicalType": "date"}
ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B", "C"]}
FIXED = {"type": "fixed", "name": "F", "size": 3}
UUID = {"type": "string", "logicalType": "uuid"}
LONG, INT = st.integers(-(2**63), 2**63 - 1), st.integers(-(2**31), 2**31 - 1)
AT_ONCE = [
    ("null", st.none()),
    ("boolean", st.booleans()),
    ("int", INT),
    ("long", LONG | st.integers(-(2**21), 2**21)),
    ("float", st.floats(width=32)),
    ("double", st.floats()),
    ("string", st.text(max_size=12)),
    (UUID, st.text(max_size=3)),
    ("bytes", st.binary(max_size=12)),
    (ENUM, st.sampled_from("ABC")),
    (FIXED, st.binary(min_size=3, max_size=3)),
    (DATE, st.integers(-719_162, 2_932_896)),
    (MILLIS, st.integers(-62_135_596_800_000, 253_402_300_799_999)),
    (MICROS, st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)),
]
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1}
ONE_BY_ONE = [
    ({"type": "array", "items": "long"}, st.lists(LONG, max_size=3)),
    ({"type": "map", "values": "string"}, st.dictionaries(st.text(max_size=2), st.text())),
    (["null", "int", "long"], st.none() | LONG),
    (DECIMAL, st.decimals(-99, 99, places=1)),
]


def optional(leaf):
    kind, values = leaf
    if kind == "null":
        return st.just(leaf)
    nullable = st.none() | values
    return st.sampled_from([leaf, (["null", kind], nullable), ([kind, "null"], nullable)])


@st.composite
def records(draw, leaves, depth=1):
    """A schema, and a strategy of its values."""
    name = f"R{depth}_{draw(st.integers(0, 10**9))}"
    pairs = []
    for each in draw(st.lists(st.sampled_from(leaves), max_size=5, unique_by=repr)):
        kind, values = draw(optional(each))
        pairs.append((kind, values))
    if depth and draw(st.booleans()):
        pairs.append(draw(optional(draw(records(AT_ONCE[:8], depth - 1)))))
    schema = record(*(kind for kind, _ in pairs), name=name)
    return schema, st.fixed_dictionaries(
        {f"f{index}": values for index, (_, values) in enumerate(pairs)}
    )


def spoilt(data):
    """What may become of a value on its way. Its schema stays the same or is unknown."""
    changed = st.tuples(st.integers(5, len(data)), st.binary(min_size=1, max_size=2)).map(
        lambda it: data[: it[0]] + it[1] + data[it[0] + len(it[1]) :]
    )
    cut = st.integers(0, len(data)).map(lambda end: data[:end])
    longer = st.binary(min_size=1, max_size=11).map(lambda more: data + more)
    noise = st.binary(max_size=30).map(lambda more: data[:5] + more)
    other = st.sampled_from([framed(UNKNOWN_ID, data[5:]), b"\1" + data[1:]])
    return st.one_of(changed, cut, longer, noise, other, st.none())


def narrower(kind, draw):
    """A type of columns that has fewer fields than are written, and others."""
    kept = [each for each in kind if draw(st.booleans())]
    return pa.struct([*kept, pa.field("new", pa.int64())])


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.data())
def test_values_are_what_they_are_one_by_one_also_malformed_ones(schemas, data):
    leaves = AT_ONCE if data.draw(st.integers(0, 3)) else AT_ONCE + ONE_BY_ONE
    schema, values = data.draw(records(leaves))
    number = schemas.add(schema)
    rows = []
    for value in data.draw(st.lists(values, max_size=8)):
        whole = framed(number, body(schema, value))
        rows.append(data.draw(st.just(whole) | st.just(whole) | spoilt(whole)))
    kind = type_of(schema)
    ignores = data.draw(st.booleans())
    if ignores:
        kind = narrower(kind, data.draw)
    raw = pa.array([b"before", *rows, b"behind"], pa.binary())[1:-1]  # as pieces are cut
    check_same(RegistryValues(schemas.url, "avro", ignores), kind, raw)


def number_of(value):
    """Zigzag in as few bytes as it takes."""
    left, written = (value << 1) ^ (value >> 63), bytearray()
    while left >= 0x80:
        written.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*written, left])


DAYS, MILLISECONDS = (-719_162, 2_932_896), (-62_135_596_800_000, 253_402_300_799_999)
MICROSECONDS = (-62_135_596_800_000_000, 253_402_300_799_999_999)
BOUNDS = (DAYS, MILLISECONDS, MICROSECONDS)
"""Of what Python's dates and times can be."""
EDGES = [sign * 2**bits + more for sign in (1, -1) for bits in range(64) for more in (-1, 0, 1)]


@pytest.mark.parametrize("kind", ["long", "int", DATE, MILLIS, MICROS, ENUM], ids=str)
def test_numbers_are_right_at_every_edge(schemas, kind):
    schema = record(kind, "string")
    number = schemas.add(schema)
    numbers = [each for each in EDGES if -(2**63) <= each < 2**63]
    numbers += [bound + more for bounds in BOUNDS for bound in bounds for more in (-1, 0, 1)]
    data = [framed(number, number_of(each) + b"\2x") for each in numbers]
    data += [framed(number, number_of(each)[:-1]) for each in numbers]
    read = check_same(RegistryValues(schemas.url, "avro"), type_of(schema), data)
    assert read == len(numbers) if kind == "long" else 0 < read < len(numbers)


LONG_WAYS = [b"\x80" * zeros + last for zeros in range(13) for last in (b"\0", b"\1", b"\2", b"\3")]
LENGTHS = [number_of(each) for each in (-1, -(2**63), 2**63 - 1, 2**31, 2, 3, 4)]


@pytest.mark.parametrize(
    ("schema", "bodies"),
    [
        (record("long"), LONG_WAYS),
        (record("long", "long"), [*LONG_WAYS, b"\2\2"]),
        (record(["null", "long"]), [each + b"\2" for each in LONG_WAYS]),
        (record(["long", "null"]), [b"", b"\0", b"\0\2", b"\2", b"\4", b"\1", b"\3\2"]),
        (record("boolean"), [b"", b"\0", b"\1", b"\2", b"\xff", b"\0\0"]),
        (record("string"), [each + b"abc" for each in (*LENGTHS, *LONG_WAYS)]),
        (record("bytes", "null"), [each + b"abc" for each in (*LENGTHS, *LONG_WAYS)]),
        (record("string", "long"), [b"\4\xc3\xa9\2", b"\2\xc3\2", b"\6\xed\xa0\x80\2", b"\0\2"]),
        (record(FIXED, FIXED["name"]), [b"", b"abc", b"abcdef", b"abcdefg"]),
        (record("float", "double"), [b"\0\0\xc0\x7f" + b"\xff" * 8, b"\1" * 11, b"\2" * 13]),
        (record(), [b"", b"\0"]),
        (record(["null", record(["null", "int"], name="I")]), [b"\0", b"\2\0", b"\2\2", b"\2\2\2"]),
        (
            record(["null", record(name="I")], ["null", "string"]),
            [b"\0\0", b"\2\0", b"\2\2\2a", b"\0\2"],
        ),
    ],
    ids=itertools.count(),
)
def test_bytes_are_taken_or_refused_as_they_are_one_by_one(schemas, schema, bodies):
    number = schemas.add(schema)
    data = [framed(number, each) for each in bodies]
    values, kind = RegistryValues(schemas.url, "avro"), type_of(schema)
    assert 0 < check_same(values, kind, data) < len(data)
    for each in data:  # alone too: nothing is behind it
        check_same(values, kind, [each])


def test_well_formed_values_are_all_read_at_once(schemas):
    schema = record(*itertools.chain(*((kind, ["null", kind]) for kind in ("long", "string"))))
    number = schemas.add(schema)
    rows = [{"f0": each, "f1": each, "f2": str(each), "f3": None} for each in range(2_000)]
    data = [framed(number, body(schema, each)) for each in rows]
    assert check_same(RegistryValues(schemas.url, "avro"), type_of(schema), data) == len(rows)


def test_one_batch_has_values_of_several_schemas_and_none(schemas):
    first = record("int", ["null", "float"])
    second = record("long", "double", {"type": "array", "items": "long"})
    third = record("long")
    kind = pa.struct(
        [
            ("f1", pa.float64()),
            ("f0", pa.int64()),
            ("f2", pa.list_(pa.int64())),
            ("f3", pa.struct([("x", pa.string())])),
        ]
    )
    bodies = [
        (first, {"f0": 1, "f1": 0.5}),
        (second, {"f0": 2, "f1": 1.5, "f2": [1, 2]}),
        (third, {"f0": 3}),
        (first, {"f0": 4, "f1": None}),
    ]
    numbers = {id(each): schemas.add(each) for each in (first, second, third)}
    data = [framed(numbers[id(schema)], body(schema, value)) for schema, value in bodies] * 3
    data[4:4] = [None, b"", b"\0\0\0\0", b"{}", data[0] + b"x", framed(UNKNOWN_ID, b"")]
    values = RegistryValues(schemas.url, "avro")
    assert check_same(values, kind, data) == 9
    for nothing in ([], [None, None], [b"", b""]):
        assert check_same(values, kind, nothing) == 0


def test_a_null_stays_one_whatever_bytes_lie_there(schemas):
    number = schemas.add(record("long"))
    whole = framed(number, b"\2")
    buffers = [bytes([0b01]), np.array([0, 6, 12], np.int32), whole * 2]
    raw = pa.Array.from_buffers(pa.binary(), 2, list(map(pa.py_buffer, buffers)))
    values = RegistryValues(schemas.url, "avro")
    assert check_same(values, type_of(record("long")), raw) == 1


def test_the_schema_that_is_met_first_is_the_one_that_is_told(schemas):
    numbers = [schemas.add(record("long", each)) for each in ("string", "int")]
    data = [framed(number, b"\0\0") for number in reversed(numbers)]
    values, kind = RegistryValues(schemas.url, "avro"), type_of(record("long"))
    with pytest.raises(TidelogError, match=f"schema {numbers[1]} has fields"):
        values.decoded(pa.array(data, pa.binary()), kind, {})


def test_columns_become_those_of_another_type_as_single_values_do():
    inner = pa.struct([("x", pa.int32()), ("gone", pa.string())])
    wanted = pa.struct([("new", pa.string()), ("in", pa.struct([("x", pa.int64())]))])
    rows = [{"in": {"x": 1, "gone": "a"}}, {"in": None}, None]
    fit = fit_for(wanted)
    found = fitted(pa.array(rows, pa.struct([("in", inner)])), wanted)
    assert found == pa.array([fit(each) for each in rows], wanted)
