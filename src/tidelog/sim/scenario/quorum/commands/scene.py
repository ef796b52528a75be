"""Setting the scene, electing leaders, appending, letting time pass."""

from tidelog.core.quorum.messages import VoterKey
from tidelog.core.quorum.state import QuorumSettings
from tidelog.sim.scenario.process import controller_address
from tidelog.sim.scenario.quorum.commands.registry import command
from tidelog.sim.scenario.quorum.machine import Machine
from tidelog.sim.scenario.quorum.messages import log_text, story_record
from tidelog.sim.scenario.quorum.stage import QuorumStage, address_of
from tidelog.sim.scenario.script import ArgumentError, Arguments, duration_ms

PATIENCE_MS = 30_000
"""How long `elect` waits for its candidate to win."""

DISCOVERY_MS = 100
"""How long `observe` waits for a new node to find the leader."""


@command("quorum", "voters=N [epoch=N] [max-entries=N] [snapshot-chunk=N] [controllers]")
def quorum(stage: QuorumStage, arguments: Arguments) -> None:
    """A new scene: voters 1 to N with empty logs, all started, nobody leads yet."""
    stage.clear()
    count = arguments.number("voters", 0)
    if not 1 <= count <= 9:
        raise ArgumentError("voters= is a number from 1 to 9")
    epoch = arguments.number("epoch", 0)
    defaults = QuorumSettings()
    stage.settings = QuorumSettings(
        max_entries=arguments.number("max-entries", defaults.max_entries)
    )
    stage.chunk_records = arguments.number("snapshot-chunk", 0)
    stage.has_controllers = arguments.flag("controllers")
    stage.voter_addresses.update((n, controller_address(n)) for n in range(1, count + 1))
    for number in range(1, count + 1):
        stage.add_machine(str(number)).write_epoch(epoch)
    with stage.silence():
        for machine in stage.machines.values():
            machine.start()
    names = ", ".join(machine.name for machine in stage.machines.values())
    stage.line(f"voters {names} in epoch={epoch}")


@command("observe", "NODE …")
def observe(stage: QuorumStage, arguments: Arguments) -> None:
    """Nodes with empty disks that only read the log: they look for the leader and follow it."""
    for name in arguments.words():
        stage.add_machine(name).start()
        stage.run_until(stage.now_ms + DISCOVERY_MS)


@command("elect", "NODE")
def elect(stage: QuorumStage, arguments: Arguments) -> None:
    """Time passes until this node leads: its timeouts are the shortest, and requests of other
    candidates get lost."""
    machine = stage.machine(arguments.word("a node"))
    stage.campaigner = machine.address
    with stage.silence():
        stage.run_until(
            stage.now_ms + PATIENCE_MS,
            lambda: machine.node is not None and machine.node.role == "leader",
        )
    stage.campaigner = None
    node = machine.running
    if node.role == "leader":
        machine.note(f"leads epoch={node.epoch}")
    else:
        machine.note(f"does not win, {node.role} in epoch={node.epoch}")


@command("append", "NODE RECORD …; p+q is one atomic entry")
def append(stage: QuorumStage, arguments: Arguments) -> None:
    """The leader appends; its followers, if they can, fetch at once."""
    machine = stage.machine(arguments.word("a node"))
    if machine.running.role != "leader":
        raise ArgumentError(f"{machine.name} does not lead")
    for text in arguments.words():
        offset = machine.append(tuple(map(story_record, text.split("+"))))
        machine.note(f"append {text}/{machine.running.epoch} offset={offset}")


@command("add-voter", "LEADER NODE")
def add_voter(stage: QuorumStage, arguments: Arguments) -> None:
    """The leader lets an observer vote."""
    machine, key = _voter_change(stage, arguments)
    error = machine.change_voters("add_voter", key)
    machine.note(error or f"append {log_text(machine.entries[-1:])}")


@command("remove-voter", "LEADER NODE")
def remove_voter(stage: QuorumStage, arguments: Arguments) -> None:
    """The leader takes a voter, perhaps itself, out of the voter set."""
    machine, key = _voter_change(stage, arguments)
    error = machine.change_voters("remove_voter", key)
    machine.note(error or f"append {log_text(machine.entries[-1:])}")


def _voter_change(stage: QuorumStage, arguments: Arguments) -> tuple[Machine, VoterKey]:
    leader = stage.machine(arguments.word("the leader"))
    return leader, stage.machine(arguments.word("a node")).key


@command("snapshot", "NODE")
def snapshot(stage: QuorumStage, arguments: Arguments) -> None:
    """The node takes a snapshot of all it knows to be committed and drops its log up to there."""
    stage.machine(arguments.word("a node")).take_snapshot()


@command("run", "DURATION")
def run(stage: QuorumStage, arguments: Arguments) -> None:
    """Time passes: whatever is due happens, and is told with the time since the command."""
    until_ms = stage.now_ms + duration_ms(arguments.word("a duration"))
    stage.run_until(until_ms, timed=True)


@command("skip", "DURATION")
def skip(stage: QuorumStage, arguments: Arguments) -> None:
    """Time passes, and what happens in it is not part of the story."""
    with stage.silence():
        stage.run_until(stage.now_ms + duration_ms(arguments.word("a duration")))


@command("broker", "NODE …; 101b is a second process that calls itself 101")
def broker(stage: QuorumStage, arguments: Arguments) -> None:
    """Brokers start, register with the active controller and wait until they may serve."""
    for name in arguments.words():
        machine = stage.add_machine(name, is_broker=True)
        assert address_of(name)[1] > 9, f"{name}: small numbers are voters"
        machine.start_serving()
