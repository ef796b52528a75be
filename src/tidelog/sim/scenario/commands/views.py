"""Looking at the stage."""

from tidelog.core.replication.follower import FollowerReplica
from tidelog.core.replication.leader import LeaderReplica
from tidelog.core.types import NO_LEADER, NO_OFFSET
from tidelog.sim.scenario.broker import StageBroker
from tidelog.sim.scenario.commands.registry import command
from tidelog.sim.scenario.script import Arguments
from tidelog.sim.scenario.stage import Stage

HEADER = ("broker", "role", "log-end", "high-watermark", "acknowledged", "log")


@command("show", "[epochs]")
def show(stage: Stage, arguments: Arguments) -> None:
    """The committed partition, then every replica: role, offsets and log.

    `acknowledged` is the follower's log end as the leader knows it from its fetches.
    """
    epochs = arguments.flag("epochs")
    partition, names_of = stage.partition, stage.cast.names_of
    elr = f" elr={names_of(partition.elr)}" if partition.elr else ""
    stage.narrator.line(
        f"leader={stage.cast.name_of(partition.leader)} leader-epoch={partition.leader_epoch} "
        f"partition-epoch={partition.partition_epoch} replicas={names_of(partition.replicas)} "
        f"isr={names_of(partition.isr)}{elr}{_state(stage)}"
    )
    header = (*HEADER[:-1], "epochs", HEADER[-1]) if epochs else HEADER
    rows: list[tuple[str, ...]] = [header]
    for broker in stage.brokers.values():
        if stage.partition_id in broker.disk.logs:
            rows.append(_row(stage, broker, epochs=epochs))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        stage.narrator.line("  ".join(cells).rstrip())


def _state(stage: Stage) -> str:
    """The glossary's words for a partition that is not whole."""
    partition = stage.partition
    if partition.leader == NO_LEADER:
        return " offline"
    minimum = stage.control.controller.committed.topic_config("orders", "min.insync.replicas")
    if len(partition.isr) < min(int(minimum or "1"), len(partition.replicas)):
        return " under-min-isr"
    wanted = len(partition.replicas) - len(partition.adding_replicas)
    return " under-replicated" if len(partition.isr) < wanted else ""


def _row(stage: Stage, broker: StageBroker, *, epochs: bool) -> tuple[str, ...]:
    assert stage.partition_id is not None, "nothing to show"
    log = broker.disk.logs[stage.partition_id]
    replica = stage.replica_on(broker)
    high_watermark = (
        broker.disk.high_watermarks.get(stage.partition_id, 0)
        if replica is None
        else replica.high_watermark
    )
    history = ",".join(f"{epoch}:{start}" for epoch, start in log.epochs.entries)
    return (
        broker.name,
        _role(stage, broker),
        str(log.log_end_offset),
        str(high_watermark),
        _acknowledged(stage, broker),
        *((f"{{{history}}}",) if epochs else ()),
        stage.names.log(log.batches) or "-",
    )


def _role(stage: Stage, broker: StageBroker) -> str:
    if not broker.running:
        return "down"
    replica = stage.replica_on(broker)
    role = replica.role if replica is not None else None
    epoch = f"e{replica.leader_epoch}" if replica is not None else ""
    if isinstance(role, LeaderReplica):
        pending = "" if role.maximal_isr() == role.isr and not role.has_change_in_flight() else "?"
        return f"leader{pending} {epoch}"
    if isinstance(role, FollowerReplica):
        return f"follower {epoch}"
    return "none"


def _acknowledged(stage: Stage, broker: StageBroker) -> str:
    leader = stage.leading_broker()
    replica = stage.replica_on(leader) if leader is not None else None
    role = replica.role if replica is not None else None
    if not isinstance(role, LeaderReplica) or broker.id not in role.progress:
        return "-"
    offset = role.progress[broker.id].log_end_offset
    return "unknown" if offset == NO_OFFSET else str(offset)


@command("audit")
def audit(stage: Stage, arguments: Arguments) -> None:
    """Does the leader hold every record that was ever committed?"""
    leader = stage.leading_broker()
    if leader is None or stage.partition_id not in leader.disk.logs:
        stage.narrator.line(f"committed {len(stage.ledger)}, no leader to ask")
        return
    log = leader.disk.logs[stage.partition_id]
    lost = stage.ledger.lost(log)
    count = sum(loss.batch.record_count for loss in lost)
    records = "".join(f" {stage.names.batch(loss.batch)}" for loss in lost)
    stage.narrator.line(
        f"committed {len(stage.ledger)}, lost {count}" + (f":{records}" if lost else "")
    )
    gone = stage.ledger.gone(log)
    if gone:
        names = " ".join(stage.names.batch(loss.batch) for loss in gone)
        stage.narrator.line(f"acknowledged with acks=1 and gone: {names}")
