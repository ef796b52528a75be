"""A look at what was appended waits for turns of the loop that bring more, and for no others."""

from tidelog.broker.fetch.gathering import GATHER_BYTES, GATHER_TURNS, Gathering

SMALL_BYTES = 200


class Writers:
    """So many append in each turn until a look is taken; says after how many turns."""

    def __init__(self) -> None:
        self.gathering = Gathering()
        self.bytes_in = 0

    def turns_until_looked_at(self, *appends: int, size_bytes: int = SMALL_BYTES) -> int:
        for turn, count in enumerate(appends):
            self.gathering.moves += count
            self.bytes_in += count * size_bytes
            if not self.gathering.goes_on(self.bytes_in):
                return turn
        raise AssertionError(f"still waiting after {len(appends)} turns")


def test_a_single_append_is_looked_at_in_the_next_turn():
    writers = Writers()
    for _ in range(20):
        assert writers.turns_until_looked_at(1) == 0


def test_two_appends_in_one_turn_may_be_followed_by_more():
    assert Writers().turns_until_looked_at(2, 1, 3, 0) == 3


def test_a_turn_that_brings_nothing_is_the_last():
    assert Writers().turns_until_looked_at(5, 0) == 1


def test_appends_without_end_are_looked_at_after_a_few_turns():
    assert Writers().turns_until_looked_at(*[3] * 100) == GATHER_TURNS


def test_large_batches_are_not_gathered():
    assert Writers().turns_until_looked_at(2, 2, size_bytes=GATHER_BYTES // 2) == 0


def test_bytes_are_counted_from_the_last_look():
    writers = Writers()
    writers.turns_until_looked_at(2, size_bytes=GATHER_BYTES)
    assert writers.turns_until_looked_at(2, 2, 0) == 2


def test_who_was_one_of_many_waits_for_the_others_although_the_first_comes_alone():
    writers = Writers()
    for _ in range(10):
        writers.turns_until_looked_at(4, 4, 0)
    assert writers.turns_until_looked_at(1, 3, 0) == 2


def test_a_writer_who_is_alone_again_is_soon_served_at_once():
    writers = Writers()
    for _ in range(10):
        writers.turns_until_looked_at(4, 4, 0)
    for _ in range(40):
        last = writers.turns_until_looked_at(1, 0)
    assert last == 0


def test_a_look_without_an_append_is_not_put_off():
    writers = Writers()
    for _ in range(10):
        writers.turns_until_looked_at(4, 0)
    assert writers.turns_until_looked_at(0) == 0
