"""The life of a cluster in figures: gaps, ages of processes, and sections that cover their rows."""

import os
import time
from types import SimpleNamespace

import pytest

from tidelog.bench.compare import failover, idle, recovery, start
from tidelog.bench.compare.footprint import age_of, start_of
from tidelog.bench.compare.gaps import is_steady
from tidelog.bench.compare.recovery import counted_on
from tidelog.bench.compare.system import Scale
from tidelog.bench.compare.warm_clusters import WarmClusters
from tidelog.bench.failover import longest_gap_ms

RATE = 100


def every_10_ms(begin: float, end: float) -> list[float]:
    return [begin + number / 100 for number in range(int((end - begin) * 100))]


def test_the_gap_is_the_longest_time_between_two_acknowledgements():
    moments = [*every_10_ms(0.0, 5.0), *every_10_ms(6.5, 8.0)]
    assert longest_gap_ms(moments, 4.9, 8.0) == pytest.approx(1510)


def test_a_gap_that_began_before_anybody_looked_counts_from_then():
    moments = [*every_10_ms(0.0, 4.5), *every_10_ms(6.5, 8.0)]
    assert longest_gap_ms(moments, 4.9, 8.0) == pytest.approx(1600)


def test_a_gap_that_has_not_ended_counts_until_now():
    assert longest_gap_ms(every_10_ms(0.0, 5.0), 4.0, 8.0) == pytest.approx(3010)
    assert longest_gap_ms([], 4.0, 8.0) == pytest.approx(4000)


def test_a_gap_before_the_fault_is_not_counted():
    moments = [*every_10_ms(0.0, 1.0), *every_10_ms(4.0, 6.0), *every_10_ms(6.2, 8.0)]
    assert longest_gap_ms(moments, 5.0, 8.0) == pytest.approx(210)


def test_a_load_that_stands_still_is_not_steady():
    moments = every_10_ms(0.0, 5.0)
    assert not is_steady(moments, 5.0, 9.0, RATE)


def test_answers_that_were_under_way_when_the_leader_died_do_not_make_a_load_steady():
    moments = every_10_ms(0.0, 5.2)
    assert not is_steady(moments, 5.0, 5.3, RATE)
    assert not is_steady(moments, 5.0, 6.1, RATE)


def test_a_load_is_steady_when_half_of_it_is_acknowledged_again():
    before = every_10_ms(0.0, 5.0)
    assert not is_steady([*before, *every_10_ms(7.0, 7.1)], 5.0, 7.1, RATE)
    assert is_steady([*before, *every_10_ms(7.0, 7.6)], 5.0, 7.6, RATE)


def test_a_process_whose_name_has_spaces_and_brackets_has_a_start_too():
    fields = " ".join(str(number) for number in range(3, 53))
    ticks = os.sysconf("SC_CLK_TCK")
    assert start_of(f"17 (a) (b c) {fields}") == 22 / ticks


def test_a_process_gets_older():
    before = age_of(os.getpid())
    deadline = time.monotonic() + 10
    while age_of(os.getpid()) <= before:
        assert time.monotonic() < deadline


def test_everybody_in_some_isr_is_counted_on():
    def topic(*isrs):
        return SimpleNamespace(
            partitions={number: SimpleNamespace(isrs=isr) for number, isr in enumerate(isrs)}
        )

    topics = {"a": topic([1, 2], [1]), "b": topic([1, 4])}
    admin = SimpleNamespace(list_topics=lambda timeout: SimpleNamespace(topics=topics))
    assert counted_on(admin) == {1, 2, 4}


@pytest.mark.parametrize(
    "section",
    [
        start.StartSection(),
        idle.IdleSection(Scale.FULL, WarmClusters(Scale.FULL)),
        failover.FailoverSection(Scale.FULL),
        recovery.RecoverySection(Scale.FULL),
    ],
    ids=lambda section: section.name,
)
def test_rows_of_a_section_are_its_own_and_have_different_keys(section):
    assert {row.section for row in section.rows} == {section.name}
    assert len({row.key for row in section.rows}) == len(section.rows) > 1
    assert not any(row.more_is_better for row in section.rows), "these are all costs"
