"""Brokers die, lose their disks, come back, stop and pause."""

from tidelog.sim.scenario.broker import StageBroker
from tidelog.sim.scenario.commands.registry import command
from tidelog.sim.scenario.disks import lose_tail, note_high_watermark
from tidelog.sim.scenario.script import ArgumentError, Arguments, number
from tidelog.sim.scenario.stage import Stage

FENCING_LIMIT_MS = 20_000
STOP_LIMIT_MS = 60_000
START_MS = 100
"""A process that registers at once serves after less."""


@command("crash", "BROKER [unnoticed] | controller")
def crash(stage: Stage, arguments: Arguments) -> None:
    """The process dies, and the controller finds out (unless it is unnoticed). If the active
    controller dies, another one with the same metadata log takes over."""
    if arguments.flag("controller"):
        stage.control.fail_over()
        return
    broker = _running(stage, arguments)
    unnoticed = arguments.flag("unnoticed")
    broker.die(power_lost=unnoticed)
    if not unnoticed:
        _wait_until_fenced(stage, broker)


@command("power-loss", "BROKER keep=OFFSET [unnoticed]")
def power_loss(stage: Stage, arguments: Arguments) -> None:
    """The machine goes dark: only records below `keep` had reached the disk."""
    broker = _running(stage, arguments)
    unnoticed = arguments.flag("unnoticed")
    keep = arguments.number("keep", 0)
    broker.die(power_lost=True)
    left, held = lose_tail(broker.server, keep)
    broker.note(f"keeps {left} of {held} records")
    if not unnoticed:
        _wait_until_fenced(stage, broker)


@command("wipe", "BROKER")
def wipe(stage: Stage, arguments: Arguments) -> None:
    """The disk of a broker that is down is replaced by an empty one."""
    broker = stage.broker(arguments.word("a broker"))
    if broker.running:
        raise ArgumentError(f"{broker.name} is running")
    broker.server.format()


@command("restart", "BROKER [checkpoint=OFFSET|none]")
def restart(stage: Stage, arguments: Arguments) -> None:
    """The process starts again on what its disk holds, and registers."""
    broker = stage.broker(arguments.word("a broker"))
    checkpoint = arguments.option("checkpoint")
    if broker.running:
        raise ArgumentError(f"{broker.name} is running")
    if checkpoint is not None:
        offset = None if checkpoint == "none" else number("checkpoint", checkpoint)
        note_high_watermark(broker.server, offset)
    with stage.telling_roles(broker):
        broker.server.start()
        stage.run_until(lambda: broker.answers, START_MS)


@command("stop", "BROKER")
def stop(stage: Stage, arguments: Arguments) -> None:
    """A controlled shutdown: the controller moves its leaders away, then it closes its logs."""
    broker = _running(stage, arguments)
    broker.server.stop()
    if not stage.run_until(lambda: not broker.running, STOP_LIMIT_MS):
        raise ArgumentError(f"{broker.name} does not stop")


@command("pause", "BROKER")
def pause(stage: Stage, arguments: Arguments) -> None:
    """The process stands still: it hears, says and notices nothing."""
    _running(stage, arguments).server.pause()


@command("resume", "BROKER")
def resume(stage: Stage, arguments: Arguments) -> None:
    """It goes on, and first hears all the metadata it has missed."""
    broker = stage.broker(arguments.word("a broker"))
    if not broker.paused:
        raise ArgumentError(f"{broker.name} is not paused")
    with stage.telling_roles(broker):
        broker.server.resume()


def _running(stage: Stage, arguments: Arguments) -> StageBroker:
    broker = stage.broker(arguments.word("a broker"))
    if not broker.running:
        raise ArgumentError(f"{broker.name} is down")
    return broker


def _wait_until_fenced(stage: Stage, broker: StageBroker) -> None:
    brokers = stage.control.committed.brokers
    stage.run_until(lambda: brokers[broker.id].fenced, FENCING_LIMIT_MS)
