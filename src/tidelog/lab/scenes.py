"""Which stories a real cluster can play, and how it comes to where a story begins.

A scene of a story is written on disks. On a cluster it has to be reached: records are produced, and
followers fetch as far as the scene says.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tidelog.lab.catalogue import Story
from tidelog.sim.scenario import ArgumentError
from tidelog.sim.scenario.quorum import OPENING
from tidelog.sim.scenario.script import Arguments, duration_ms, list_of, split_command
from tidelog.sim.scenario.words import Cast, parse_log

LONGEST_MS = 10_000
"""A real cluster is not made to wait for longer."""
MOST_FETCHES = 5
VIEWS = ("picture", "show", "audit")


class Scene(NamedTuple):
    """What a `given` says, as far as a cluster can be brought there."""

    replicas: tuple[int, ...]
    """The first one leads."""
    names: tuple[str, ...]
    """The leader's records, all of leader epoch 0."""
    lengths: Mapping[int, int]
    high_watermarks: Mapping[int, int]

    @property
    def leader(self) -> int:
        return self.replicas[0]

    @property
    def followers(self) -> tuple[int, ...]:
        return self.replicas[1:]

    def plan(self) -> Iterator[tuple[str, str | int]]:
        """`produce` a record, let a follower `fetch`, or let it `ask` without hearing the answer.

        First everything that followers know to be committed: they fetch it, ask for what follows
        it, and are told how much is committed. Then what they have beyond that. A leader that
        knows more than they do has heard a last question of each.
        """
        known = min((self.high_watermarks[each] for each in self.followers), default=0)
        for name in self.names[:known]:
            yield "produce", name
        if known:
            for follower in (*self.followers, *self.followers, *self.followers):
                yield "fetch", follower
        written = known
        for follower in sorted(self.followers, key=lambda each: self.lengths[each]):
            for name in self.names[written : self.lengths[follower]]:
                yield "produce", name
            written = max(written, self.lengths[follower])
            if self.lengths[follower] > known:
                yield "fetch", follower
        for name in self.names[written:]:
            yield "produce", name
        if self.high_watermarks[self.leader] > known:
            for follower in self.followers:
                yield "ask", follower


def read_scene(arguments: Arguments) -> Scene:
    """ArgumentError if a cluster cannot be brought there."""
    cast = Cast()
    replicas = tuple(
        cast.id_of(name) for name in list_of("replicas", arguments.option("replicas") or "()")
    )
    if not replicas:
        raise ArgumentError("replicas= is missing")
    logs = {each: parse_log(arguments.option(cast.name_of(each)) or "") for each in replicas}
    everywhere = arguments.number("hw", 0)
    marks = {
        each: arguments.number(f"hw.{cast.name_of(each)}", min(everywhere, len(logs[each])))
        for each in replicas
    }
    if arguments.leftovers():
        raise ArgumentError(f"its scene begins in the middle: {arguments.leftovers()[0]}")
    leader = replicas[0]
    names = tuple(name for name, _ in logs[leader])
    if any(epoch for log in logs.values() for _, epoch in log):
        raise ArgumentError("its scene begins in a later leader epoch")
    if any(tuple(name for name, _ in log) != names[: len(log)] for log in logs.values()):
        raise ArgumentError("its scene begins with logs that differ")
    scene = Scene(replicas, names, {each: len(log) for each, log in logs.items()}, marks)
    _check_marks(scene)
    return scene


def _check_marks(scene: Scene) -> None:
    known = {scene.high_watermarks[each] for each in scene.followers}
    leads, shortest = scene.high_watermarks[scene.leader], min(scene.lengths.values())
    if len(known) > 1 or leads not in (*known, shortest):
        raise ArgumentError("its scene begins with high watermarks that nobody can arrange")


def why_not(story: Story) -> str | None:
    """Why this story plays on the simulator alone; None if a cluster can play it."""
    for directive in story.script.directives:
        try:
            check_command(directive.command)
        except ArgumentError as reason:
            return str(reason)
    return None


def check_command(command: str) -> None:
    """ArgumentError if it cannot be done to a real cluster."""
    name, arguments = split_command(command)
    if name == OPENING:
        raise ArgumentError("it is about the quorum, which has no gate")
    if name == "given":
        read_scene(arguments)
        return
    take = _TAKES.get(name)
    if take is None:
        raise ArgumentError(f"{name} cannot be done to a real cluster on command")
    take(arguments)
    if arguments.leftovers():
        raise ArgumentError(f"{name} {arguments.leftovers()[0]} cannot be had of a real cluster")


def _take_produce(arguments: Arguments) -> None:
    arguments.words()
    for option in ("acks", "to"):
        arguments.option(option)


def _take_fetch(arguments: Arguments) -> None:
    arguments.word("a broker")
    if not 1 <= arguments.number("times", 1) <= MOST_FETCHES:
        raise ArgumentError(f"a broker fetches at most {MOST_FETCHES} times at once")
    if arguments.number("max", 1) != 1:
        raise ArgumentError("a leader cannot be made to send a number of records other than one")


def _take_advance(arguments: Arguments) -> None:
    duration = arguments.word("a duration")
    if duration_ms(duration) > LONGEST_MS:
        raise ArgumentError(f"{duration} pass in it, and no real cluster skips them")


def _take_answer(arguments: Arguments) -> None:
    if arguments.word("a message") != "answer":
        raise ArgumentError("only answers to fetches can be kept or lost")
    arguments.word("a broker")


def _take_crash(arguments: Arguments) -> None:
    arguments.flag("unnoticed")
    arguments.word("a broker")


def _take_restart(arguments: Arguments) -> None:
    arguments.word("a broker")


def _take_consume(arguments: Arguments) -> None:
    arguments.number("offset", 0)


def _take_nothing(arguments: Arguments) -> None:
    """It only looks."""


_TAKES = {
    "produce": _take_produce,
    "fetch": _take_fetch,
    "advance": _take_advance,
    "hold": _take_answer,
    "drop": _take_answer,
    "crash": _take_crash,
    "restart": _take_restart,
    "consume": _take_consume,
    **dict.fromkeys(VIEWS, _take_nothing),
}
