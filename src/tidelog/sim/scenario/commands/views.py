"""Looking at the stage."""

from tidelog.core.types import NO_OFFSET
from tidelog.sim.scenario.commands.registry import command
from tidelog.sim.scenario.disks import batches_of
from tidelog.sim.scenario.script import Arguments
from tidelog.sim.scenario.stage import Stage
from tidelog.sim.scenario.view import FOLLOWER, LEADER, ReplicaPicture, look
from tidelog.sim.scenario.words import log_text

HEADER = ("broker", "role", "log-end", "high-watermark", "acknowledged", "epochs", "log")
EPOCHS = HEADER.index("epochs")


@command("show", "[epochs]")
def show(stage: Stage, arguments: Arguments) -> None:
    """The committed partition, then every replica: role, offsets and log.

    `acknowledged` is the follower's log end as the leader knows it from its fetches; `leader?`
    has an ISR proposal in flight.
    """
    with_epochs = arguments.flag("epochs")
    picture = look(stage)
    told = [
        f"leader={picture.leader} leader-epoch={picture.leader_epoch} "
        f"partition-epoch={picture.partition_epoch} replicas=({','.join(picture.assignment)}) "
        f"isr=({','.join(picture.isr)})"
    ]
    if picture.elr:
        told.append(f"elr=({','.join(picture.elr)})")
    if picture.state:
        told.append(picture.state)
    stage.narrator.line(" ".join(told))
    rows = [HEADER, *(_row(stage, replica) for replica in picture.replicas)]
    if not with_epochs:
        rows = [row[:EPOCHS] + row[EPOCHS + 1 :] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        stage.narrator.line("  ".join(cells).rstrip())


def _row(stage: Stage, replica: ReplicaPicture) -> tuple[str, ...]:
    role = replica.role + ("?" if replica.change_in_flight else "")
    if replica.role in (LEADER, FOLLOWER):
        role += f" e{replica.leader_epoch}"
    acknowledged = "-" if replica.acknowledged is None else str(replica.acknowledged)
    return (
        replica.broker,
        role,
        str(replica.log_end_offset),
        str(replica.high_watermark),
        "unknown" if replica.acknowledged == NO_OFFSET else acknowledged,
        "{" + ",".join(f"{epoch}:{start}" for epoch, start in replica.epochs) + "}",
        log_text(replica.batches) or "-",
    )


@command("audit")
def audit(stage: Stage, arguments: Arguments) -> None:
    """Does the leader hold every record that was ever committed?"""
    leader = stage.leading_broker()
    hosted = None if leader is None else leader.hosted
    if hosted is None:
        stage.narrator.line(f"committed {len(stage.ledger)}, no leader to ask")
        return
    log = batches_of(hosted.log)
    lost = stage.ledger.lost(log)
    count = sum(loss.batch.record_count for loss in lost)
    records = "".join(f" {loss.batch}" for loss in lost)
    stage.narrator.line(
        f"committed {len(stage.ledger)}, lost {count}" + (f":{records}" if lost else "")
    )
    gone = stage.ledger.gone(log)
    if gone:
        names = " ".join(str(loss.batch) for loss in gone)
        stage.narrator.line(f"acknowledged with acks=1 and gone: {names}")
