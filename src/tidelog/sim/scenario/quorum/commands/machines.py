"""Processes die, come back and stop; disks are slow."""

from tidelog.sim.scenario.quorum.commands.registry import command
from tidelog.sim.scenario.quorum.machine import TRAPS, Machine
from tidelog.sim.scenario.quorum.stage import QuorumStage
from tidelog.sim.scenario.quorum.wire import ACCEPTED, REFUSED, UNANSWERED, Hint
from tidelog.sim.scenario.script import ArgumentError, Arguments

SHUTDOWN_MS = 60_000
HEARTBEAT_MS = 3_000


@command("crash", f"NODE [lose-tail] [{'|'.join(TRAPS)}]")
def crash(stage: QuorumStage, arguments: Arguments) -> None:
    """The process dies; with lose-tail the machine loses what was not synced. With one of the
    last words it dies later, at exactly that moment."""
    machine = _running(stage, arguments)
    for trap in TRAPS:
        if arguments.flag(trap):
            machine.set_trap(trap)
            return
    machine.crash(lose_tail=arguments.flag("lose-tail"))


@command("restart", "NODE [clean]")
def restart(stage: QuorumStage, arguments: Arguments) -> None:
    """The process starts again on what its disk holds."""
    machine = stage.machine(arguments.word("a node"))
    if machine.node is not None:
        raise ArgumentError(f"{machine.name} is running")
    if machine.is_broker:
        arguments.flag("clean")  # it has stopped in order, and its disk knows
        machine.start_serving()
    else:
        machine.start()


@command("format", "NODE")
def format_disk(stage: QuorumStage, arguments: Arguments) -> None:
    """A node that is down gets an empty disk under the same id."""
    machine = stage.machine(arguments.word("a node"))
    if machine.node is not None:
        raise ArgumentError(f"{machine.name} is running")
    machine.server.format()


@command("stop", "NODE")
def stop(stage: QuorumStage, arguments: Arguments) -> None:
    """A voter hands over and goes; a broker asks the controller to move its leaders first."""
    machine = _running(stage, arguments)
    if machine.is_broker:
        machine.server.stop()
        stage.run_until(stage.now_ms + SHUTDOWN_MS, lambda: machine.node is None)
        machine.note("stops")
        return
    machine.hand_over()
    stage.fire_due()
    machine.crash()


@command("disk", "NODE slow|fast")
def disk(stage: QuorumStage, arguments: Arguments) -> None:
    """A slow disk has synced nothing of what comes now; a fast one syncs at once."""
    machine = _running(stage, arguments)
    machine.server.disk_is_slow = arguments.choice("how fast it is", ("slow", "fast")) == "slow"


@command("hint", "NODE [unanswered]")
def hint(stage: QuorumStage, arguments: Arguments) -> None:
    """Its connections close. Whoever depends on it connects once more, and acts on what comes of
    it; with the last word nothing comes."""
    closed = stage.machine(arguments.word("a node"))
    outcome = REFUSED if closed.node is None else ACCEPTED
    if arguments.flag("unanswered"):
        outcome = UNANSWERED
    told: list[int] = []

    def tell(asker: int) -> None:
        if asker not in told:
            told.append(asker)
            stage.machines[asker].note(f"connects to {closed.name} again: {outcome}")

    _await_heartbeat(stage, closed)
    stage.wires.hint = Hint(closed.address, outcome, tell)
    stage.wires.close_all(closed.address)
    stage.settle()
    stage.wires.hint = None
    _await_heartbeat(stage, closed)


def _await_heartbeat(stage: QuorumStage, machine: Machine) -> None:
    """Without a connection there is none that could close."""
    active = stage.active_machine()
    if not machine.is_broker or machine.node is None or active is None:
        return
    if stage.wires.connects(machine.address, active.address):
        stage.run_until(stage.now_ms + HEARTBEAT_MS, machine.is_heard)


def _running(stage: QuorumStage, arguments: Arguments) -> Machine:
    machine = stage.machine(arguments.word("a node"))
    if machine.node is None:
        raise ArgumentError(f"{machine.name} is down")
    return machine
