"""Looking at the stage."""

from collections.abc import Sequence

from tidelog.core.metadata.records import Config
from tidelog.core.types import NO_OFFSET
from tidelog.sim.scenario.quorum.commands.registry import command
from tidelog.sim.scenario.quorum.machine import Machine
from tidelog.sim.scenario.quorum.messages import log_text
from tidelog.sim.scenario.quorum.stage import QuorumStage
from tidelog.sim.scenario.quorum.telling import partition_lines
from tidelog.sim.scenario.script import ArgumentError, Arguments


@command("show", "[voters] [NODE …]")
def show(stage: QuorumStage, arguments: Arguments) -> None:
    """Every node of the quorum: role, epoch, vote, offsets, log. `voters` adds the voter set
    each of them believes in."""
    voters = arguments.flag("voters")
    shown = [stage.machine(name) for name in arguments.words()] or [
        machine for machine in stage.machines.values() if not machine.is_broker
    ]
    controllers = stage.has_controllers
    header = ["node", "role", "epoch", "voted", "log-end", "high-watermark"]
    header += ["voters"] if voters else []
    header.append("controller" if controllers else "log")
    _table(stage, [header, *(_row(machine, voters, controllers) for machine in shown)])


def _row(machine: Machine, voters: bool, controllers: bool) -> list[str]:
    node, log, stored = machine.node, machine.log, machine.stored
    voted = stored.voted if node is None else node.state.voted
    row = [
        machine.name,
        "down" if node is None else node.role,
        str(stored.epoch if node is None else node.epoch),
        "-" if voted is None else str(voted.node_id),
        str(log.log_end_offset),
        _offset(NO_OFFSET if node is None else node.high_watermark),
    ]
    if voters:
        row.append("-" if node is None else ",".join(str(v.node_id) for v in node.voters))
    if controllers:
        row.append(_controller(machine))
    else:
        latest = log.latest_snapshot
        snapshot = [f"snapshot={tuple(latest)}"] if latest is not None else []
        row.append(" ".join([*snapshot, log_text(machine.entries)]).strip() or "-")
    return row


def _controller(machine: Machine) -> str:
    running = machine.server.node
    controller = None if running is None else running.controller
    if controller is None:
        return "-"
    topics = ", ".join(controller.core.committed.topic_ids) or "no topics"
    return f"{'active' if controller.active else 'standby'}: {topics}"


def _offset(offset: int) -> str:
    return "unknown" if offset == NO_OFFSET else str(offset)


@command("applied", "NODE …")
def applied(stage: QuorumStage, arguments: Arguments) -> None:
    """The records a node was told are committed, in order: its state."""
    for name in arguments.words():
        machine = stage.machine(name)
        names = " ".join(each.resource_name for each in machine.applied if isinstance(each, Config))
        machine.note(f"applied {names or 'nothing'}")


@command("metadata", "[NODE]")
def metadata(stage: QuorumStage, arguments: Arguments) -> None:
    """The committed metadata as this node, or the active controller, knows it."""
    name = arguments.optional_word()
    machine = stage.active_machine() if name is None else stage.machine(name)
    if machine is None:
        raise ArgumentError("there is no active controller")
    image = machine.image
    for broker in image.brokers.values():
        state = "fenced" if broker.fenced else "unfenced"
        stopping = " shutting-down" if broker.in_controlled_shutdown else ""
        epoch = f"broker-epoch={broker.broker_epoch}"
        stage.line(f"broker {broker.broker_id} {state}{stopping} {epoch}")
    for line in partition_lines(image, image.partitions()):
        stage.line(line)


@command("audit")
def audit(stage: QuorumStage, arguments: Arguments) -> None:
    """Elections: who led which epoch, and did anybody vote twice? Commits: is everything that
    was ever committed still in the leader's log?"""
    history = stage.history
    led = ", ".join(
        f"{epoch} by {' and '.join(map(str, leaders))}"
        for epoch, leaders in sorted(history.leaders.items())
    )
    stage.line(f"epochs led: {led or 'none'}")
    stage.line(f"votes: {'; '.join(history.double_votes) or 'nobody voted twice in an epoch'}")
    for conflict in history.conflicts:
        stage.line(f"conflict: {conflict}")
    leader = stage.active_machine()
    committed = history.committed
    if leader is None:
        stage.line(f"committed {len(committed)}, no leader to ask")
        return
    log, entries = leader.log, leader.entries
    kept = [entry for entry in committed if entry.offset >= log.log_start_offset]
    lost = [entry for entry in kept if entry not in entries]
    stage.line(
        f"committed {len(committed)}, lost {len(lost)}" + (f": {log_text(lost)}" if lost else "")
    )


def _table(stage: QuorumStage, rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        stage.line("  ".join(cells).rstrip())
