"""Java's properties files: what is read is what Java would read, and errors name their line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.config.properties import (
    PropertiesError,
    Property,
    parse_properties,
    write_properties,
)
from tidelog.config.quantities import (
    parse_duration_ms,
    parse_size_bytes,
    show_duration,
    show_size,
)

anything = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)


def read(text):
    return {entry.key: entry.value for entry in parse_properties(text, "f").entries}


@given(st.dictionaries(anything.filter(bool), anything, max_size=8))
def test_what_is_written_is_read_back(values):
    text = write_properties(values)
    assert text.isascii()
    assert read(text) == values


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused_with_a_line(text):
    findings = []
    try:
        entries = parse_properties(text, "f").entries
        assert read(write_properties({entry.key: entry.value for entry in entries})) == read(text)
    except PropertiesError as reason:
        findings = reason.findings
    assert all(1 <= finding.line <= len(text) for finding in findings)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1", {"a": "1"}),
        ("a:1", {"a": "1"}),
        ("a 1", {"a": "1"}),
        ("  a \t=  1", {"a": "1"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("a==1", {"a": "=1"}),
        ("a = b = c", {"a": "b = c"}),
        ("url=PLAINTEXT://:9092", {"url": "PLAINTEXT://:9092"}),
        ("a=trailing ", {"a": "trailing "}),
        ("# a=1\n! b=2\n  # c=3\nd=4", {"d": "4"}),
        ("a=1#2", {"a": "1#2"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=x,\\\n    y", {"a": "x,y"}),
        ("a=x\\\n# not a comment", {"a": "x# not a comment"}),
        ("a=x\\\\\nb=1", {"a": "x\\", "b": "1"}),
        ("a=x\\\n\nb=1", {"a": "x", "b": "1"}),
        ("a=x\\", {"a": "x"}),
        ("a\\ b\\=c=1", {"a b=c": "1"}),
        ("a=\\t\\n\\r\\f\\q\\\\", {"a": "\t\n\r\fq\\"}),
        ("a=\\u00e9\\u4E2D", {"a": "é中"}),
        ("a=\\ud83d\\ude00", {"a": "😀"}),
        ("", {}),
        ("\n \n\t\n", {}),
    ],
)
def test_a_file_means_what_it_means_to_java(text, expected):
    assert read(text) == expected


def test_of_two_lines_with_one_key_the_last_counts_and_a_warning_names_both():
    found = parse_properties("a=1\nb=2\na=3\n", "server.properties")
    assert found.entries == (Property("b", "2", 2), Property("a", "3", 3))
    (warning,) = found.warnings
    assert str(warning) == ("server.properties:3: a stands in line 1 already; this line counts")


def test_every_unreadable_line_is_named_at_once():
    with pytest.raises(PropertiesError) as caught:
        parse_properties("a=1\nb=\\u12\n=x\nc=\\ud800\n", "server.properties")
    assert str(caught.value).splitlines() == [
        "server.properties:2: \\u12 is not \\u and four hexadecimal digits",
        "server.properties:3: there is no key before the separator",
        "server.properties:4: half of a character: \\uD800 to \\uDFFF come in pairs",
    ]


def test_a_line_that_goes_on_is_counted_where_it_begins():
    entries = parse_properties("# x\na=1,\\\n  2\nb=3", "f").entries
    assert [(entry.key, entry.line) for entry in entries] == [("a", 2), ("b", 4)]


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("500ms", 500),
        ("30s", 30_000),
        ("1.5s", 1500),
        ("2m", 120_000),
        ("5min", 300_000),
        ("12h", 43_200_000),
        ("7d", 604_800_000),
        (" 0ms ", 0),
        ("1 s", 1000),
    ],
)
def test_durations_are_read_to_the_millisecond(text, duration_ms):
    assert parse_duration_ms(text) == duration_ms


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("512B", 512),
        ("1kB", 1000),
        ("64KiB", 65_536),
        ("1MiB", 1_048_576),
        ("10MB", 10**7),
        ("0.5GiB", 2**29),
        ("2TB", 2 * 10**12),
    ],
)
def test_sizes_tell_powers_of_two_from_powers_of_ten(text, size_bytes):
    assert parse_size_bytes(text) == size_bytes


@pytest.mark.parametrize("text", ["", "500", "ms", "-1s", "1 week", "1e3s", "0.5ms", "1S", "٣s"])
def test_a_text_that_is_no_duration_is_refused(text):
    with pytest.raises(ValueError, match="is not a"):
        parse_duration_ms(text)


@pytest.mark.parametrize("text", ["", "10", "1mb", "0.3B", "1.5 MiBs", "-1B"])
def test_a_text_that_is_no_size_is_refused(text):
    with pytest.raises(ValueError, match="is not a"):
        parse_size_bytes(text)


@given(st.integers(0, 10**13))
def test_what_is_shown_means_the_same_number(number):
    assert parse_duration_ms(show_duration(number)) == number
    assert parse_size_bytes(show_size(number)) == number
