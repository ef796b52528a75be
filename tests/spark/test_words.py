"""Small things that every part of the connector leans on."""

import pickle
import re

import pytest

from tidelog.spark.failure import InvalidOption, words_of
from tidelog.spark.options import Options
from tidelog.spark.ranges import OffsetRange, as_document, from_document, to_json, told


def test_offsets_have_the_shape_of_the_stock_connector():
    offsets = {("orders", 1): 7, ("orders", 0): 3, ("pay", 0): 0}
    assert to_json(offsets) == '{"orders":{"0":3,"1":7},"pay":{"0":0}}'
    assert from_document(as_document(offsets)) == offsets
    assert OffsetRange("orders", 0, 3, 10).size == 7


def test_long_lists_of_partitions_are_cut_in_messages():
    assert told({("a", 1), ("a", 0)}) == "a-0, a-1"
    assert told({("a", index) for index in range(7)}).endswith("a-4 and 2 more")


@pytest.mark.parametrize(
    ("values", "ask", "words"),
    [
        ({"minPartitions": "many"}, lambda o: o.whole("minPartitions"), "minPartitions is 'many'"),
        ({"minPartitions": "0"}, lambda o: o.whole("minPartitions", least=1), "from 1 on"),
        ({"includeHeaders": "yes"}, lambda o: o.truth("includeHeaders", False), "true or false"),
        ({"view": "rows"}, lambda o: o.one_of("view", "records", ["records"]), "one of records"),
        ({"path": " "}, lambda o: o.required("path", "give one"), "the option path is missing"),
        (
            {"subscrib": "a"},
            lambda o: o.refuse_unknown(["subscribe"], ()),
            "did you mean subscribe?",
        ),
    ],
)
def test_a_wrong_option_is_named_with_what_would_be_right(values, ask, words):
    with pytest.raises(InvalidOption, match=re.escape(words)):
        ask(Options(values))


def test_names_of_options_have_no_case():
    options = Options({"startingoffsets": "latest", "kafka.Bootstrap.Servers": "x:1"})
    assert options.text("startingOffsets") == "latest"
    assert "STARTINGOFFSETS" in options
    assert options.with_prefix("kafka.") == {"bootstrap.servers": "x:1"}


def test_our_words_are_found_again_in_an_error_of_spark():
    refusal = pickle.loads(pickle.dumps(InvalidOption("there is no option x", "see docs")))
    wrapped = RuntimeError(f"[PYTHON_DATA_SOURCE_ERROR] …\nInvalidOption: {refusal}\n  at java…")
    assert words_of(wrapped) == "there is no option x; see docs"
    assert words_of(RuntimeError("something else")) is None
