"""What producers and consumers do."""

from tidelog.core.errors import Error
from tidelog.core.replication.inputs import EARLIEST, LATEST, NO_REPLICA, ConsumerFetch
from tidelog.core.replication.replica import Replica
from tidelog.core.types import NO_EPOCH
from tidelog.sim.scenario import produce as producing
from tidelog.sim.scenario import wire
from tidelog.sim.scenario.broker import StageBroker
from tidelog.sim.scenario.commands.registry import command
from tidelog.sim.scenario.exchange import EVERYTHING
from tidelog.sim.scenario.script import ArgumentError, Arguments
from tidelog.sim.scenario.stage import Stage
from tidelog.sim.sim_log import SimBatch, client_batch

CLIENT = -3
"""The sender of a produce that a story keeps on the wire."""


@command(
    "produce",
    "RECORD … | count=N [acks=all|1|0] [to=BROKER] [pid=N] [producer-epoch=N] [seq=N] "
    "[txn] [verified]; p+q is one batch of two records",
)
def produce(stage: Stage, arguments: Arguments) -> None:
    """A client sends records to the leader, or to whom it takes for the leader."""
    acks = arguments.option("acks", "all") or ""
    if acks not in producing.ACKS:
        raise ArgumentError(f"acks is all, 1 or 0, not {acks!r}")
    target = _target(stage, arguments, "to")
    transactional, verified = arguments.flag("txn"), arguments.flag("verified")
    count = arguments.number("count", 0)
    producer = {
        "producer_id": arguments.number("pid", -1),
        "producer_epoch": arguments.number("producer-epoch", -1),
        "base_sequence": arguments.number("seq", -1),
    }
    if producer["producer_id"] >= 0:
        producer["producer_epoch"] = max(0, producer["producer_epoch"])
    texts = arguments.words()
    if bool(texts) == bool(count):
        raise ArgumentError("name the records, or say count=")
    numbers = [tuple(map(stage.names.number_of, text.split("+"))) for text in texts]
    batches = tuple(
        client_batch(values, **producer)._replace(is_transactional=transactional)
        for values in numbers or [(0,)] * count
    )
    if target is None:
        stage.narrator.line("client: finds no leader")
        return
    message = producing.Produce(" ".join(texts), batches, producing.ACKS[acks], verified, target)
    if stage.wire.catches(wire.PRODUCE, CLIENT, message):
        stage.narrator.line(f"client -> {target.name} produce {message.name} | held")
    else:
        producing.deliver(stage, message)


@command("marker", "commit|abort pid=N [producer-epoch=N]")
def marker(stage: Stage, arguments: Arguments) -> None:
    """The transaction coordinator ends a transaction on the leader."""
    outcome = arguments.choice("an outcome", ("commit", "abort"))
    producer_id = arguments.number("pid", -1)
    leader = _target(stage, arguments, "to")
    batch = SimBatch(
        0,
        0,
        NO_EPOCH,
        0,
        producer_id,
        arguments.number("producer-epoch", 0),
        -1,
        1,
        (stage.names.number_of(outcome),),
        is_transactional=True,
        is_control=True,
    )
    if leader is None:
        raise ArgumentError("there is no leader")
    replica = stage.replica_on(leader)
    role = stage.leader_role(leader, leader.id, leader.stage.partition.id)
    assert replica is not None, f"{leader.name} hosts nothing"
    assert role is not None, f"{leader.name} does not lead"
    appended = leader.disk.logs[replica.partition].append_as_leader(batch, replica.leader_epoch)
    leader.note(f"append marker {outcome} pid={producer_id} offset={appended.base_offset}")
    leader.perform(replica, role.on_appended(stage.now_ms))


@command(
    "consume",
    "offset=N [from=BROKER] [leader-epoch=N] [last-epoch=N] [rack=NAME] [read-committed]",
)
def consume(stage: Stage, arguments: Arguments) -> None:
    """A consumer fetches, once, from the leader or from the broker it was sent to."""
    broker = _target(stage, arguments, "from")
    fetch = ConsumerFetch(
        arguments.number("offset", 0),
        arguments.number("leader-epoch", NO_EPOCH),
        arguments.number("last-epoch", NO_EPOCH),
        arguments.flag("read-committed"),
        arguments.option("rack"),
    )
    replica = _reachable_replica(stage, broker)
    if broker is None or replica is None:
        return
    decision = replica.consumer_fetch(fetch, stage.now_ms)
    told = f"consumer -> {broker.name} fetch offset={fetch.fetch_offset}"
    if fetch.last_fetched_epoch != NO_EPOCH:
        told += f" last-epoch={fetch.last_fetched_epoch}"
    if decision.error is not Error.NONE:
        stage.narrator.line(f"{told} | {decision.error.name}")
    elif decision.diverging is not None:
        epoch, end_offset = decision.diverging
        stage.narrator.line(f"{told} | diverging epoch={epoch} end-offset={end_offset}")
    elif decision.preferred_replica != NO_REPLICA:
        name = stage.cast.name_of(decision.preferred_replica)
        stage.narrator.line(f"{told} | read from {name}")
    else:
        log = broker.disk.logs[replica.partition]
        batches = log.read(decision.read_from, decision.read_to, EVERYTHING)
        records = f"records {stage.names.log(batches)}" if batches else "no records"
        stage.narrator.line(f"{told} | {records} high-watermark={decision.high_watermark}")


@command("list-offsets", "latest|earliest [from=BROKER] [read-committed]")
def list_offsets(stage: Stage, arguments: Arguments) -> None:
    """A client asks where the partition ends, or begins."""
    which = arguments.choice("an offset", ("latest", "earliest"))
    read_committed = arguments.flag("read-committed")
    broker = _target(stage, arguments, "from")
    replica = _reachable_replica(stage, broker)
    if broker is None or replica is None:
        return
    wanted = LATEST if which == "latest" else EARLIEST
    answer = replica.list_offset(wanted, NO_EPOCH, read_committed=read_committed)
    told = answer.error.name if answer.error is not Error.NONE else f"{which}={answer.offset}"
    broker.note(told)


@command("validate", "offset=N epoch=N [from=BROKER]")
def validate(stage: Stage, arguments: Arguments) -> None:
    """A consumer asks whether its position is still part of the log (OffsetForLeaderEpoch)."""
    offset, epoch = arguments.number("offset", 0), arguments.number("epoch", 0)
    broker = _target(stage, arguments, "from")
    replica = _reachable_replica(stage, broker)
    if broker is None or replica is None:
        return
    error, end = replica.offset_for_leader_epoch(epoch, NO_EPOCH)
    if error is not Error.NONE:
        broker.note(error.name)
        return
    broker.note(f"epoch={end.leader_epoch} end-offset={end.end_offset}")
    sound = end.leader_epoch == epoch and end.end_offset >= offset
    safe = min(offset, end.end_offset)
    stage.narrator.note(
        "consumer",
        f"goes on at offset={offset}" if sound else f"log truncated, safe offset={safe}",
    )


def _target(stage: Stage, arguments: Arguments, option: str) -> StageBroker | None:
    name = arguments.option(option)
    return stage.leading_broker() if name is None else stage.broker(name)


def _reachable_replica(stage: Stage, broker: StageBroker | None) -> Replica | None:
    if broker is None:
        stage.narrator.line("client: finds no leader")
        return None
    if not broker.answers:
        stage.narrator.line(f"client: no connection to {broker.name}")
        return None
    replica = stage.replica_on(broker)
    if replica is None:
        broker.note(Error.NOT_LEADER_OR_FOLLOWER.name)
    return replica
