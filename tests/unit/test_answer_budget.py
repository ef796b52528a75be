"""What a node keeps of answers that nobody takes: one budget, and who has to go when it is used."""

import pytest

from tidelog.host.answers import SMALL_ANSWER_BYTES, AnswerBudget

MIB = 1 << 20


class Peer:
    """A connection that takes nothing, until it is hung up on and ends."""

    def __init__(self, budget):
        self.budget = budget
        self.owed_bytes = 0
        self.is_hung_up_on = False

    def owe(self, size_bytes):
        self.owed_bytes += size_bytes
        self.budget.charge(size_bytes)
        self.budget.wait(self)

    def settle(self):
        self.budget.release(self.owed_bytes)
        self.owed_bytes = 0
        self.budget.settle(self)

    def hang_up(self):
        assert not self.is_hung_up_on, "hung up on twice"
        self.is_hung_up_on = True


@pytest.fixture
def budget():
    return AnswerBudget(small_from_bytes=40 * MIB, limit_bytes=80 * MIB)


def peers(budget, *sizes):
    made = [Peer(budget) for _ in sizes]
    for peer, size in zip(made, sizes, strict=True):
        peer.owe(size)
    return made


def test_an_answer_may_be_as_large_as_what_is_left_then_small_then_not_at_all(budget):
    assert budget.allowance_bytes == 40 * MIB
    (first,) = peers(budget, 30 * MIB)
    assert budget.allowance_bytes == 10 * MIB
    peers(budget, 10 * MIB)
    assert budget.allowance_bytes == SMALL_ANSWER_BYTES
    (last,) = peers(budget, 40 * MIB)
    assert budget.allowance_bytes == 0
    first.settle()
    assert budget.allowance_bytes == SMALL_ANSWER_BYTES
    last.settle()
    assert budget.allowance_bytes == 30 * MIB


def test_who_asks_for_what_is_allowed_never_gets_the_node_over_its_limit_by_more_than_one(budget):
    largest_batch = 2 * MIB
    for _ in range(1_000):
        allowance = budget.allowance_bytes
        if allowance:
            peers(budget, max(min(allowance, 14 * MIB), largest_batch))
    assert budget.peak_bytes < 80 * MIB + largest_batch


def test_at_the_limit_those_go_who_have_owed_longest(budget):
    made = peers(budget, *[10 * MIB] * 8)
    assert [peer.is_hung_up_on for peer in made] == [True, True] + [False] * 6
    assert budget.owed_bytes == 80 * MIB, "they keep what they owe until they have ended"
    assert budget.allowance_bytes == 0
    for peer in made[:2]:
        peer.settle()
    assert (budget.owed_bytes, budget.owing) == (60 * MIB, 6)
    assert budget.allowance_bytes == SMALL_ANSWER_BYTES


def test_those_who_are_about_to_go_count_once(budget):
    made = peers(budget, *[10 * MIB] * 8)
    made[0].owe(1)
    (other,) = peers(budget, 1)
    assert sum(peer.is_hung_up_on for peer in made) == 2 + 1, "one more, for two bytes more"
    assert not other.is_hung_up_on


def test_who_has_taken_his_answers_meanwhile_has_not_owed_for_long(budget):
    made = peers(budget, *[10 * MIB] * 7)
    made[0].settle()
    made[0].owe(10 * MIB)
    peers(budget, 10 * MIB)
    assert [peer.is_hung_up_on for peer in made] == [False, True, True, False, False, False, False]


def test_who_owes_little_is_spared(budget):
    little = peers(budget, *[1_000] * 50)
    (slow,) = peers(budget, 79 * MIB)
    more = peers(budget, 2 * MIB)
    assert slow.is_hung_up_on
    assert not any(peer.is_hung_up_on for peer in little + more)
