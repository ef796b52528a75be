"""The logs of all replicas as a drawing: one line each, the same offset in the same column."""

from collections.abc import Sequence

from tidelog.sim.scenario.commands.registry import command
from tidelog.sim.scenario.disks import TOPIC
from tidelog.sim.scenario.script import Arguments
from tidelog.sim.scenario.stage import Stage
from tidelog.sim.scenario.view import PartitionPicture, ReplicaPicture, look
from tidelog.sim.scenario.words import StoryBatch

WIDEST = 10
"""Offsets drawn of each log, counted from the end of the longest."""


@command("picture")
def picture(stage: Stage, arguments: Arguments) -> None:
    """Draw the logs. `[a·e0]` is a record below this replica's high watermark, `{a·e0}` one
    above it, `{a≠e0}` one that differs from the leader's log; e0 is its leader epoch."""
    seen = look(stage)
    stage.narrator.line(headline(seen))
    for line in draw(seen):
        stage.narrator.line(line)


def headline(seen: PartitionPicture) -> str:
    parts = [
        f"{TOPIC}-0",
        f"leader {seen.leader}",
        f"leader epoch {seen.leader_epoch}",
        f"ISR ({','.join(seen.isr)}) of ({','.join(seen.assignment)})",
    ]
    return " · ".join([*parts, *([seen.state] if seen.state else [])])


def draw(seen: PartitionPicture) -> list[str]:
    leader = seen.leading()
    first = max(0, max(r.log_end_offset for r in seen.replicas) - WIDEST)
    rows = [_row(replica, seen, leader, first) for replica in seen.replicas]
    columns = [max(len(row[index]) for row in rows) for index in range(len(rows[0]) - 1)]
    return [
        "  ".join(
            [*(cell.ljust(w) for cell, w in zip(row, columns, strict=False)), row[-1]]
        ).rstrip()
        for row in rows
    ]


def _row(
    replica: ReplicaPicture,
    seen: PartitionPicture,
    leader: ReplicaPicture | None,
    first: int,
) -> Sequence[str]:
    state = "ISR" if replica.broker in seen.isr else "out"
    if replica.role == "down":
        state = "down"
    crown = "♛" if replica is leader else " "
    fork = replica.differs_from(leader)
    remark = "" if fork is None else f"differs from {fork}"
    return (
        f" {crown} {replica.broker}",
        state,
        _cells(replica, first, fork),
        f"HW {replica.high_watermark}",
        f"end {replica.log_end_offset}",
        remark,
    )


def _cells(replica: ReplicaPicture, first: int, fork: int | None) -> str:
    """`│` stands at the high watermark, `▲` at the log end."""
    drawn = "…" if first and replica.log_end_offset > 0 else ""
    marked = False
    for batch in replica.batches:
        if batch.base_offset < first:
            continue
        at_mark = not marked and batch.base_offset >= replica.high_watermark
        marked = marked or at_mark
        differs = fork is not None and batch.base_offset >= fork
        drawn += ("│" if at_mark else " ") + _cell(replica, batch, differs=differs)
    return drawn + ("▲" if marked else "│▲")


def _cell(replica: ReplicaPicture, batch: StoryBatch, *, differs: bool) -> str:
    name = "+".join(batch.names)
    text = f"{name}{'≠' if differs else '·'}e{batch.leader_epoch}"
    return f"[{text}]" if batch.base_offset < replica.high_watermark else f"{{{text}}}"
