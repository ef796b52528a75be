"""The audit must find what is wrong: a ledger that never complains proves nothing."""

import pytest

from tidelog.audit.ledger import Found, Ledger, name_of, value_of
from tidelog.audit.load import Ack, longest_silence_ms, quantile_ms

SIZE = 100


def ledger_of(*acknowledged):
    """Batches of two records, to partition 0: (writer, offset) each."""
    ledger = Ledger()
    for writer, offset in acknowledged:
        ledger.acknowledge(writer, ledger.next_numbers(writer, 2), 0, offset)
    return ledger


def read(*names):
    """Records as they lie in partition 0, from offset 0 on."""
    return [Found(0, offset, value_of(*name, SIZE)) for offset, name in enumerate(names)]


def test_what_was_acknowledged_and_is_there_holds():
    verdict = ledger_of((0, 0), (1, 2)).judge(read((0, 0), (0, 1), (1, 0), (1, 1)))
    assert verdict.holds
    assert (verdict.acknowledged, verdict.read_back, verdict.in_doubt) == (4, 4, 0)


@pytest.mark.parametrize(
    ("found", "what"),
    [
        (read((0, 0)), "lost"),
        (read((0, 0), (0, 1), (0, 1)), "duplicated"),
        (read((0, 1), (0, 0)), "out_of_order"),
        (read((0, 0), (9, 0), (0, 1)), "never_sent"),
        (read((0, 0), (0, 1), (0, 2)), "never_sent"),
        ([*read((0, 0)), Found(0, 7, value_of(0, 1, SIZE))], "misplaced"),
        ([*read((0, 0)), Found(1, 1, value_of(0, 1, SIZE))], "misplaced"),
        ([*read((0, 0), (0, 1)), Found(0, 2, b"what is this?")], "never_sent"),
    ],
)
def test_each_kind_of_damage_is_found(found, what):
    verdict = ledger_of((0, 0)).judge(found)
    assert not verdict.holds
    assert getattr(verdict, what) >= 1


def test_a_batch_without_an_answer_may_be_there_or_not():
    for found in (read((0, 0), (0, 1)), read((0, 0), (0, 1), (0, 2), (0, 3))):
        ledger = ledger_of((0, 0))
        ledger.next_numbers(0, 2)
        verdict = ledger.judge(found)
        assert verdict.holds
        assert verdict.in_doubt == 2


def test_a_value_tells_who_wrote_it():
    assert name_of(value_of(3, 14, SIZE)) == (3, 14)
    assert name_of(b"3:") is None
    assert name_of(b"") is None


def test_silence_is_counted_by_partition_and_only_around_the_span():
    acks = [Ack(0, 0, at) for at in (1.0, 5.0, 5.5, 6.5, 7.0)]
    acks += [Ack(1, 0, at) for at in (5.4, 5.6, 5.8, 6.0)]
    assert longest_silence_ms(acks, 5.6, 6.0) == 1000.0


def test_the_quantile_of_nothing_is_nothing():
    assert quantile_ms([], 0.5) == 0.0
    assert round(quantile_ms([Ack(0, 1.0, 1.002), Ack(0, 1.0, 1.009)], 0.99)) == 9
