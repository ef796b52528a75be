"""Work that follows a turn of the event loop is done behind what that turn asked for."""

from collections.abc import Callable

from tidelog.broker.turn_end import TurnEnd


class Loop:
    """Does what was asked for when its turn is over."""

    def __init__(self) -> None:
        self.asked: list[Callable[[], None]] = []
        self.done: list[str] = []
        self.turn_end = TurnEnd(self.asked.append)

    def work(self, name: str) -> Callable[[], None]:
        return lambda: self.done.append(name)

    def end_turn(self) -> None:
        asked, self.asked[:] = list(self.asked), []
        for work in asked:
            work()


def test_it_is_done_behind_what_the_turn_asked_for():
    loop = Loop()
    loop.turn_end.add(loop.work("append"))
    loop.turn_end.follow(loop.work("look"))
    assert loop.done == []
    loop.end_turn()
    assert loop.done == ["append", "look"]


def test_it_is_done_at_once_after_a_turn_that_asked_for_nothing():
    loop = Loop()
    loop.turn_end.follow(loop.work("look"))
    assert loop.done == ["look"]
    assert not loop.asked


def test_what_was_answered_is_sent_before_the_rest_of_a_turn_is_done():
    loop = Loop()

    def append() -> None:
        loop.done.append("append")
        loop.turn_end.send_first()

    loop.turn_end.add(append)
    loop.turn_end.add(loop.work("look"))
    loop.end_turn()
    assert loop.done == ["append"]
    loop.end_turn()
    assert loop.done == ["append", "look"]
