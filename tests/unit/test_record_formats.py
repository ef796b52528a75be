"""Records and positions as text: formats, json that comes back, the grammar of --from."""

import pytest

from tidelog.cli.record_format import BadFormat, compile_format
from tidelog.cli.record_input import BadRecord, as_json, format_reader, json_reader, line_reader
from tidelog.client import NewRecord, Read
from tidelog.client.partitioner import murmur2, partition_of_key
from tidelog.survey.positions import Base, Position, parse_position
from tidelog.survey.refusal import NotPossible
from tidelog.wire.records import Record

NOON_MS = 1_767_268_800_000
"""2026-01-01T12:00:00Z"""


def read(key=b"k", value=b"v", headers=()):
    record = Record(1041, NOON_MS, key, value, headers)
    return Read("orders", 3, record, leader_epoch=4, high_watermark=1044, log_start_offset=7)


@pytest.mark.parametrize(
    ("template", "printed"),
    [
        (r"%v\n", b"v\n"),
        (r"%t-%p@%o e%e [%[,%]) %d", b"orders-3@1041 e4 [7,1044) 1767268800000"),
        ("%d{iso}", b"2026-01-01T12:00:00.000Z"),
        ("%k{hex}:%v{base64}", b"6b:dg=="),
        ("%T %K %V %H %%", b"6 1 1 1 %"),
        ("%h", b"trace=x "),
        ("%h{<%k|%v{hex}>}", b"<trace|78>"),
        (r"\x41\t\\", b"A\t\\"),
    ],
)
def test_a_format_prints_a_record(template, printed):
    assert compile_format(template)(read(headers=(("trace", b"x"),))) == printed


@pytest.mark.parametrize(
    ("template", "complaint"),
    [
        ("%", "single %"),
        ("%q", "no verb %q"),
        ("%v{rot13}", "no form of bytes"),
        ("%v{hex", "not closed"),
        (r"\z", "no escape"),
        ("%h{%o}", "a header has %k and %v"),
    ],
)
def test_a_format_that_means_nothing_is_refused_with_its_reason(template, complaint):
    with pytest.raises(BadFormat, match=complaint):
        compile_format(template)


@pytest.mark.parametrize(
    ("key", "value", "headers"),
    [
        (b"k", b"v", ()),
        (None, None, ()),
        (b"", b"", (("h", None), ("h", b""))),
        (b"\xff\x00", "Grüße".encode(), (("trace", b"\xfe"),)),
        (b"k", b"v", (("bad\udcff", b"x"),)),
    ],
)
def test_what_consume_prints_as_json_produce_reads_back(key, value, headers):
    line = as_json(read(key, value, headers)).encode()
    assert json_reader(None, None)(line) == NewRecord(value, key, headers, NOON_MS, 3)


@pytest.mark.parametrize("line", [b"{", b"[]", b"{}", b'{"value": {"base64": "!"}}'])
def test_a_line_that_is_no_record_is_refused(line):
    with pytest.raises(BadRecord):
        json_reader(None, None)(line)


def test_json_needs_no_more_than_a_value():
    assert json_reader("k", 2)(b'{"value": 7}') == NewRecord(b"7", b"k", partition=2)


def test_lines_are_taken_apart_by_a_format():
    reader = format_reader(r"%k:%v\n", None, None)
    assert reader(b"a:b:c") == NewRecord(b"b:c", b"a")
    with pytest.raises(BadRecord, match="does not look like"):
        reader(b"no colon")
    with pytest.raises(BadFormat, match="twice"):
        format_reader("%v %v", None, None)


def test_a_plain_line_is_the_value():
    assert line_reader("k", None)(b"hello") == NewRecord(b"hello", b"k")


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("start", Position(Base.START, 0)),
        ("end", Position(Base.END, 0)),
        ("1041", Position(Base.OFFSET, 1041)),
        ("+5", Position(Base.START, 5)),
        ("-5", Position(Base.END, -5)),
        ("@now", Position(Base.TIME, NOON_MS)),
        ("@-30m", Position(Base.TIME, NOON_MS - 1_800_000)),
        ("@2026-01-01T12:00:00Z", Position(Base.TIME, NOON_MS)),
        ("@2026-01-01T12:00", Position(Base.TIME, NOON_MS)),
        ("@1767268800000", Position(Base.TIME, NOON_MS)),
    ],
)
def test_positions_are_written_in_many_ways(text, position):
    assert parse_position(text, option="--from", now_ms=NOON_MS) == position


@pytest.mark.parametrize("text", ["", "soon", "@", "@yesterday", "1e3", "--5", "@-1parsec"])
def test_what_is_no_position_is_wrong_usage(text):
    with pytest.raises(NotPossible) as caught:
        parse_position(text, option="--from")
    assert caught.value.is_usage


@pytest.mark.parametrize(
    ("data", "signed"),
    [
        # What Apache Kafka's own tests of its hash function expect.
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_keys_hash_as_in_java(data, signed):
    assert murmur2(data) == signed % 2**32


def test_keys_go_to_the_partition_that_other_clients_choose():
    kafka = pytest.importorskip("kafka.partitioner.default")
    murmur = kafka.murmur2
    for number in range(200):
        key = f"key-{number}".encode() * (number % 5 + 1)
        assert partition_of_key(key, 7) == (murmur(key) & 0x7FFFFFFF) % 7
