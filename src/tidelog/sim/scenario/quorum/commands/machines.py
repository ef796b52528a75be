"""Processes die, come back and stop; disks are slow."""

from tidelog.core.failover import ProbeOutcome, confirms_death, suspect
from tidelog.sim.scenario.quorum.commands.registry import command
from tidelog.sim.scenario.quorum.machine import TRAPS, Machine, QuorumDisk
from tidelog.sim.scenario.quorum.stage import QuorumStage
from tidelog.sim.scenario.script import ArgumentError, Arguments

SHUTDOWN_MS = 60_000


@command("crash", f"NODE [lose-tail] [{'|'.join(TRAPS)}]")
def crash(stage: QuorumStage, arguments: Arguments) -> None:
    """The process dies; with lose-tail the machine loses what was not synced. With one of the
    last words it dies later, at exactly that moment."""
    machine = _running(stage, arguments)
    for trap in TRAPS:
        if arguments.flag(trap):
            machine.trap = trap
            return
    machine.crash(lose_tail=arguments.flag("lose-tail"))


@command("restart", "NODE [clean]")
def restart(stage: QuorumStage, arguments: Arguments) -> None:
    """The process starts again on what its disk holds."""
    machine = stage.machine(arguments.word("a node"))
    if machine.node is not None:
        raise ArgumentError(f"{machine.name} is running")
    if machine.is_broker:
        machine.start_serving(clean=arguments.flag("clean"))
    else:
        machine.start()


@command("format", "NODE")
def format_disk(stage: QuorumStage, arguments: Arguments) -> None:
    """A node that is down gets an empty disk under the same id."""
    machine = stage.machine(arguments.word("a node"))
    if machine.node is not None:
        raise ArgumentError(f"{machine.name} is running")
    machine.disk = QuorumDisk()


@command("stop", "NODE")
def stop(stage: QuorumStage, arguments: Arguments) -> None:
    """A voter hands over and goes; a broker asks the controller to move its leaders first."""
    machine = _running(stage, arguments)
    if machine.broker is not None:
        machine.broker.lifecycle.begin_shutdown(stage.now_ms)
        stage.run_until(stage.now_ms + SHUTDOWN_MS, lambda: machine.node is None)
        if machine.node is not None:
            machine.note(f"may not stop yet: {machine.broker.lifecycle.state}")
        return
    machine.perform(machine.running.shutdown(stage.now_ms))
    stage.run_until(stage.now_ms)
    machine.crash()


@command("disk", "NODE slow|fast")
def disk(stage: QuorumStage, arguments: Arguments) -> None:
    """A slow disk has synced nothing of what comes now; a fast one syncs at once."""
    machine = _running(stage, arguments)
    machine.disk.slow = arguments.choice("how fast it is", ("slow", "fast")) == "slow"
    if not machine.disk.slow:
        machine.sync()


@command("hint", "NODE [unanswered]")
def hint(stage: QuorumStage, arguments: Arguments) -> None:
    """Its connections close. Whoever depends on it connects once more, and acts on what comes of
    it; with the last word nothing comes."""
    closed = stage.machine(arguments.word("a node"))
    outcome = ProbeOutcome.REFUSED if closed.node is None else ProbeOutcome.ACCEPTED
    if arguments.flag("unanswered"):
        outcome = ProbeOutcome.UNANSWERED
    for machine in stage.machines.values():
        if machine.node is None or machine is closed:
            continue
        suspicion = suspect(closed.key.node_id, machine.controller, machine.running)
        if suspicion is None:
            continue
        machine.note(f"connects to {closed.name} again: {outcome.value}")
        if confirms_death(outcome):
            machine.confirmed_gone(suspicion)


def _running(stage: QuorumStage, arguments: Arguments) -> Machine:
    machine = stage.machine(arguments.word("a node"))
    if machine.node is None:
        raise ArgumentError(f"{machine.name} is down")
    return machine
