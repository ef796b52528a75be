"""Marks: each has a sentence, unknown names are an error, and rare states are recognised."""

import re
from collections import Counter
from pathlib import Path

import pytest

import tidelog
from tidelog.sim import data_marks
from tidelog.sim.control_marks import ELECTIONS_ASKED, PROPOSAL_REFUSALS, REQUEST_REFUSALS
from tidelog.sim.marks import MARKS, MARKS_OF_BYTES, Marks, all_counts, unreached
from tidelog.sim.world_port import Counters

SIM = Path(tidelog.__file__).parent / "sim"


def marks():
    counters, told = Counters(), []
    return Marks(counters, told.append), counters.marks, told


def test_there_are_enough_marks_and_each_is_a_sentence():
    assert len(MARKS) >= 60
    assert not set(MARKS) & set(MARKS_OF_BYTES)
    every = {**MARKS, **MARKS_OF_BYTES}
    for name, sentence in every.items():
        assert re.fullmatch(r"[a-z][a-z_]+", name), name
        assert len(sentence.split()) >= 5, f"{name}: {sentence}"
    assert len(set(every.values())) == len(every)


def test_a_mark_is_counted_and_told_the_first_time():
    mark, counts, told = marks()
    for _ in range(3):
        mark.add("elr_elected")
    assert counts == Counter({"elr_elected": 3})
    assert told == ["elr_elected"]


def test_a_name_without_a_sentence_is_an_error():
    mark, counts, _ = marks()
    with pytest.raises(AssertionError, match="no_such_state"):
        mark.add("no_such_state")
    assert not counts


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
        for call in re.findall(r"marks\.add\(([^)]*)\)", text):
            added.update(re.findall(r'"([a-z_]+)"', call))
    tables = (
        data_marks.FETCH_REFUSALS,
        data_marks.READ_REFUSALS,
        data_marks.PRODUCE_REFUSALS,
        data_marks.PARKED_FAILURES,
        PROPOSAL_REFUSALS,
        REQUEST_REFUSALS,
        ELECTIONS_ASKED,
    )
    for table in tables:
        added.update(table.values())
    assert added == {*MARKS, *MARKS_OF_BYTES}
