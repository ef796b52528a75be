"""Followers fetch, time passes."""

from tidelog.sim.scenario.commands.registry import command
from tidelog.sim.scenario.disks import EVERYTHING
from tidelog.sim.scenario.exchange import begin_fetch
from tidelog.sim.scenario.script import ArgumentError, Arguments, duration_ms
from tidelog.sim.scenario.stage import Stage


@command("fetch", "BROKER [times=N] [max=RECORDS]")
def fetch(stage: Stage, arguments: Arguments) -> None:
    """The follower asks its leader for what comes next, and the leader answers."""
    follower = stage.broker(arguments.word("a broker"))
    times = arguments.number("times", 1)
    max_records = arguments.number("max", EVERYTHING)
    if times < 1 or max_records < 1:
        raise ArgumentError("times and max are at least 1")
    for _ in range(times):
        exchange = begin_fetch(follower, max_records=max_records)
        if isinstance(exchange, str):
            stage.narrator.line(f"{follower.name}: {exchange}")
            return
        exchange.send()
        exchange.tell()


@command("advance", "DURATION")
def advance(stage: Stage, arguments: Arguments) -> None:
    """Time passes: heartbeats, sessions, ISR checks, retries and timeouts happen in it."""
    stage.advance(duration_ms(arguments.word("a duration")))
