"""The verdict on a benchmark: each way in which a record can be wrong is seen."""

from collections.abc import Callable, Iterator

import pytest

from tidelog.audit.ledger import Found, Ledger, Verdict
from tidelog.bench.verify.producing import Work, note
from tidelog.bench.verify.run import Judged, Outcome
from tidelog.bench.verify.values import value_of, writer_of
from tidelog.cli.bench.verify import exit_code
from tidelog.cli.failure import NOT_REACHED, OK, VIOLATION

WORK = Work(producers=2, records=6, record_bytes=64, partitions=2)
Log = list[Found]


def told_offsets(producer: int) -> list[int]:
    """Of six records in turn to two partitions; the second producer came after the first."""
    return [3 * producer + place // 2 for place in range(WORK.records)]


def whole_log() -> Log:
    return [
        Found(partition, 3 * producer + number, value_of(2 * producer + partition, number, 64))
        for partition in range(2)
        for producer in range(2)
        for number in range(3)
    ]


def judge(log: Log, forgotten: int | None = None) -> Outcome:
    ledger = Ledger()
    for producer in range(WORK.producers):
        offsets = told_offsets(producer)
        if forgotten is not None:
            offsets[forgotten] = -1
        note(ledger, WORK, producer, offsets)
    judged = Judged(WORK.record_bytes)

    def read() -> Iterator[Found]:
        yield from log

    verdict: Verdict = ledger.judge(judged.each(read()))
    return Outcome(verdict, judged.changed, [], [], 1.0)


def test_a_log_with_every_record_once_and_in_order_is_clean() -> None:
    outcome = judge(whole_log())
    assert outcome.is_clean
    assert outcome.verdict.acknowledged == outcome.verdict.read_back == 12
    assert exit_code(outcome) == OK


def without_the_last(log: Log) -> None:
    log.pop()


def with_one_twice(log: Log) -> None:
    log.append(log[-1]._replace(offset=6))


def with_two_exchanged(log: Log) -> None:
    log[0], log[1] = log[0]._replace(value=log[1].value), log[1]._replace(value=log[0].value)


def with_a_stranger(log: Log) -> None:
    log.append(Found(1, 6, b"who am I"))


def with_a_flipped_bit(log: Log) -> None:
    value = bytearray(log[4].value)
    value[40] ^= 1
    log[4] = log[4]._replace(value=bytes(value))


def with_a_shorter_value(log: Log) -> None:
    log[4] = log[4]._replace(value=log[4].value[:-1])


@pytest.mark.parametrize(
    ("damage", "name"),
    [
        (without_the_last, "lost"),
        (with_one_twice, "duplicated"),
        (with_two_exchanged, "out_of_order"),
        (with_two_exchanged, "misplaced"),
        (with_a_stranger, "never_sent"),
        (with_a_flipped_bit, "changed"),
        (with_a_shorter_value, "changed"),
    ],
)
def test_what_is_wrong_is_counted_and_ends_with_exit_code_5(
    damage: Callable[[Log], None], name: str
) -> None:
    log = whole_log()
    damage(log)
    outcome = judge(log)
    found = {**outcome.verdict._asdict(), "changed": outcome.changed}
    assert found[name] > 0, found
    assert exit_code(outcome) == VIOLATION


def test_replicas_that_differ_are_a_broken_promise() -> None:
    assert exit_code(judge(whole_log())._replace(diverging=["verify-0: diverging"])) == VIOLATION


def test_records_without_an_acknowledgement_may_be_there_but_are_told_of() -> None:
    outcome = judge(whole_log(), forgotten=5)
    assert outcome.is_clean
    assert outcome.verdict.in_doubt == 2
    assert exit_code(outcome) == NOT_REACHED


def test_no_two_values_are_the_same_and_all_have_the_size_that_was_asked_for() -> None:
    writers = [writer_of(producer, partition, 6) for producer in range(3) for partition in range(6)]
    assert len(set(writers)) == 18
    values = {value_of(writer, number, 100) for writer in writers for number in range(200)}
    assert len(values) == 18 * 200
    assert {len(value) for value in values} == {100}
