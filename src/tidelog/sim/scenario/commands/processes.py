"""Brokers die, lose their disks, come back, stop and pause."""

from tidelog.core.types import NEVER_MS
from tidelog.sim.scenario.broker import StageBroker
from tidelog.sim.scenario.commands.registry import command
from tidelog.sim.scenario.script import ArgumentError, Arguments, number
from tidelog.sim.scenario.stage import Stage


@command("crash", "BROKER [unnoticed] | controller")
def crash(stage: Stage, arguments: Arguments) -> None:
    """The process dies, and its session with the controller runs out (unless unnoticed). If the
    active controller dies, a standby with the same metadata log takes over."""
    if arguments.flag("controller"):
        stage.control.fail_over()
        return
    broker = _running(stage, arguments)
    unnoticed = arguments.flag("unnoticed")
    broker.crash()
    if not unnoticed:
        _wait_until_fenced(stage, broker)


@command("power-loss", "BROKER keep=OFFSET [unnoticed]")
def power_loss(stage: Stage, arguments: Arguments) -> None:
    """The machine goes dark: only records below `keep` had reached the disk."""
    broker = _running(stage, arguments)
    unnoticed = arguments.flag("unnoticed")
    keep = arguments.number("keep", 0)
    partition = stage.partition.id
    high_watermark = broker.replicas[partition].high_watermark
    broker.crash()
    log = broker.disk.log(partition)
    log.synced_offset = min(keep, log.log_end_offset)
    held = log.log_end_offset - log.log_start_offset
    lost = log.lose_tail(keep)
    broker.disk.high_watermarks[partition] = min(high_watermark, log.log_end_offset)
    broker.note(f"keeps {held - lost} of {held} records")
    if not unnoticed:
        _wait_until_fenced(stage, broker)


@command("wipe", "BROKER")
def wipe(stage: Stage, arguments: Arguments) -> None:
    """The disk of a broker that is down is replaced by an empty one."""
    broker = stage.broker(arguments.word("a broker"))
    if broker.running:
        raise ArgumentError(f"{broker.name} is running")
    broker.disk.logs.clear()
    broker.disk.high_watermarks.clear()


@command("restart", "BROKER [clean] [checkpoint=OFFSET|none]")
def restart(stage: Stage, arguments: Arguments) -> None:
    """The process starts again on what its disk holds, and registers."""
    broker = stage.broker(arguments.word("a broker"))
    clean = arguments.flag("clean")
    checkpoint = arguments.option("checkpoint")
    if broker.running:
        raise ArgumentError(f"{broker.name} is running")
    if checkpoint is not None and stage.partition_id is not None:
        offset = 0 if checkpoint == "none" else number("checkpoint", checkpoint)
        broker.disk.high_watermarks[stage.partition_id] = offset
    with stage.telling_roles(broker):
        broker.start(clean=clean or broker.stopped_cleanly)


@command("stop", "BROKER")
def stop(stage: Stage, arguments: Arguments) -> None:
    """A controlled shutdown: the controller moves its leaders away, then it closes its logs."""
    broker = _running(stage, arguments)
    broker.link.lifecycle.begin_shutdown(stage.now_ms)
    broker.link.poke()
    stage.run_until(NEVER_MS - 1, lambda: not broker.running)


@command("pause", "BROKER")
def pause(stage: Stage, arguments: Arguments) -> None:
    """The process stands still: it hears, says and notices nothing."""
    _running(stage, arguments).paused = True


@command("resume", "BROKER")
def resume(stage: Stage, arguments: Arguments) -> None:
    """It goes on, and first hears all the metadata it has missed."""
    broker = stage.broker(arguments.word("a broker"))
    if not broker.paused:
        raise ArgumentError(f"{broker.name} is not paused")
    broker.paused = False
    with stage.telling_roles(broker):
        if broker.hears_controller:
            broker.catch_up_metadata()
        broker.on_timer()


def _running(stage: Stage, arguments: Arguments) -> StageBroker:
    broker = stage.broker(arguments.word("a broker"))
    if not broker.running:
        raise ArgumentError(f"{broker.name} is down")
    return broker


def _wait_until_fenced(stage: Stage, broker: StageBroker) -> None:
    brokers = stage.control.controller.committed.brokers
    stage.run_until(NEVER_MS - 1, lambda: brokers[broker.id].fenced)
