"""A client's produce on its way to a leader, and what the leader makes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tidelog.core.errors import Error
from tidelog.core.replication.inputs import ACKS_ALL, ACKS_LEADER, ACKS_NONE
from tidelog.core.replication.leader import LeaderReplica
from tidelog.core.replication.producers import AppendedBatch
from tidelog.core.replication.replica import Replica
from tidelog.sim.scenario.broker import ParkedProduce
from tidelog.sim.scenario.words import offsets_text
from tidelog.sim.sim_log import SimBatch

if TYPE_CHECKING:
    from tidelog.sim.scenario.broker import StageBroker
    from tidelog.sim.scenario.stage import Stage

ACKS = {"all": ACKS_ALL, "1": ACKS_LEADER, "0": ACKS_NONE}
REQUEST_TIMEOUT_MS = 30_000


class Produce(NamedTuple):
    name: str
    """Unnamed records are called by the offset they get, so this may be empty at first."""
    batches: tuple[SimBatch, ...]
    acks: int
    verified: bool
    target: StageBroker


def deliver(stage: Stage, produce: Produce) -> None:
    broker = produce.target
    if not broker.answers:
        stage.narrator.line(f"client: no connection to {broker.name}")
        return
    replica = stage.replica_on(broker)
    role = replica.role if replica is not None else None
    if replica is None or not isinstance(role, LeaderReplica):
        broker.note(f"refuse produce {produce.name} {Error.NOT_LEADER_OR_FOLLOWER.name}")
        return
    check = role.check_produce(produce.batches[0], produce.acks, verified=produce.verified)
    if check.error is not Error.NONE:
        broker.note(f"refuse produce {produce.name} {check.error.name}")
        return
    if check.duplicate is not None:
        first, last = check.duplicate.first_offset, check.duplicate.last_offset
        broker.note(f"duplicate of {offsets_text(first, last)}, nothing appended")
        _answer(broker, replica, produce, check.duplicate)
        return
    appended = _append(broker, replica, produce)
    first, last = appended[0].base_offset, appended[-1].last_offset
    broker.note(f"append {offsets_text(first, last)} leader-epoch={replica.leader_epoch}")
    if not produce.name:
        produce = produce._replace(name=str(first) if first == last else f"{first}..{last}")
    if produce.acks == ACKS_LEADER:
        for batch in appended:
            stage.ledger.on_acknowledged_by_leader(batch)
    broker.perform(replica, role.on_appended(stage.now_ms))
    _answer(broker, replica, produce, last + 1)


def _append(broker: StageBroker, replica: Replica, produce: Produce) -> list[SimBatch]:
    log = broker.disk.logs[replica.partition]
    names = broker.stage.names
    appended: list[SimBatch] = []
    for batch in produce.batches:
        named = batch
        if not produce.name:
            named = batch._replace(values=(names.number_of(str(log.log_end_offset)),))
        appended.append(log.append_as_leader(named, replica.leader_epoch))
    return appended


def _answer(
    broker: StageBroker, replica: Replica, produce: Produce, wanted: int | AppendedBatch
) -> None:
    """Answer when everything below an offset is committed, or all of the first append."""
    now_ms, role = broker.stage.now_ms, replica.role
    assert isinstance(role, LeaderReplica), f"{broker.name} answers without leading"
    if produce.acks == ACKS_LEADER:
        broker.note(f"answered produce {produce.name}")
    if produce.acks != ACKS_ALL:
        return
    token = ParkedProduce(produce.name, now_ms + REQUEST_TIMEOUT_MS)
    broker.parked.append(token)
    if isinstance(wanted, AppendedBatch):
        broker.perform(replica, role.await_duplicate(token, wanted, now_ms))
        wanted = wanted.last_offset + 1
    else:
        broker.perform(replica, role.await_commit(token, wanted, now_ms))
    if token in broker.parked:
        broker.note(f"parked until high-watermark={wanted}")
