"""Marks: each has a sentence, unknown names are an error, and rare states are recognised."""

import re
from collections import Counter
from pathlib import Path

import pytest

import tidelog
from tidelog.sim.marks import MARKS, all_counts, unreached
from tidelog.sim.nodes import marks_data
from tidelog.sim.nodes.marks import NodeMarks
from tidelog.sim.nodes.marks_control import ELECTIONS_ASKED, PROPOSAL_REFUSALS, REQUEST_REFUSALS

SIM = Path(tidelog.__file__).parent / "sim"


def test_there_are_enough_marks_and_each_is_a_sentence():
    assert len(MARKS) >= 60
    for name, sentence in MARKS.items():
        assert re.fullmatch(r"[a-z][a-z_]+", name), name
        assert len(sentence.split()) >= 5, f"{name}: {sentence}"
    assert len(set(MARKS.values())) == len(MARKS)


def test_a_mark_is_counted():
    marks = NodeMarks()
    for _ in range(3):
        marks.add("elr_elected")
    assert marks.counts == Counter({"elr_elected": 3})


def test_a_name_without_a_sentence_is_an_error():
    marks = NodeMarks()
    with pytest.raises(AssertionError, match="no_such_state"):
        marks.add("no_such_state")
    assert not marks.counts


def test_what_was_never_reached_is_counted_as_nothing_and_named():
    counts = all_counts({"elr_elected": 2})
    assert list(counts) == sorted(MARKS)
    assert counts["elr_elected"] == 2
    assert counts["split_vote"] == 0
    missing = unreached({"elr_elected": 2, "split_vote": 0})
    assert missing == [name for name in MARKS if name != "elr_elected"]


def test_every_mark_is_added_somewhere_and_nothing_else_is():
    added = set()
    for path in SIM.rglob("*.py"):
        text = path.read_text("utf-8")
        for call in re.findall(r"(?:marks\.add|self\._add)\(([^)]*)\)", text):
            added.update(re.findall(r'"([a-z_]+)"', call))
    tables = (
        marks_data.FETCH_REFUSALS,
        marks_data.READ_REFUSALS,
        marks_data.PRODUCE_REFUSALS,
        marks_data.PARKED_FAILURES,
        PROPOSAL_REFUSALS,
        REQUEST_REFUSALS,
        ELECTIONS_ASKED,
    )
    for table in tables:
        added.update(table.values())
    assert added == set(MARKS)
