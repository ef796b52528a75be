"""What producers and consumers do."""

from typing import cast

from tidelog.core.errors import Error
from tidelog.core.replication.inputs import EARLIEST, LATEST
from tidelog.core.types import NO_EPOCH
from tidelog.sim.scenario import gate
from tidelog.sim.scenario.broker import StageBroker
from tidelog.sim.scenario.commands.registry import command
from tidelog.sim.scenario.disks import PLENTY_BYTES, TOPIC
from tidelog.sim.scenario.produce import ACKS, Produce, Producer
from tidelog.sim.scenario.script import ArgumentError, Arguments
from tidelog.sim.scenario.stage import Stage
from tidelog.sim.scenario.words import log_text, read_batches
from tidelog.wire.protocol.schemas.fetch_request import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.protocol.schemas.fetch_response import FetchResponse, PartitionData
from tidelog.wire.protocol.schemas.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tidelog.wire.protocol.schemas.list_offsets_response import ListOffsetsResponse
from tidelog.wire.protocol.schemas.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tidelog.wire.protocol.schemas.offset_for_leader_epoch_response import (
    OffsetForLeaderEpochResponse,
)
from tidelog.wire.protocol.schemas.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

CLIENT = -3
"""The sender of a produce that a story keeps on the wire."""
NO_REPLICA = -1
FETCH_VERSION = 13
"""The first one that can say that an offset is not available yet."""


@command(
    "produce",
    "RECORD … | count=N [acks=all|1|0] [to=BROKER] [pid=N] [producer-epoch=N] [seq=N] "
    "[txn] [verified]; p+q is one batch of two records",
)
def produce(stage: Stage, arguments: Arguments) -> None:
    """A client sends records to the leader, or to whom it takes for the leader."""
    acks = arguments.option("acks", "all") or ""
    if acks not in ACKS:
        raise ArgumentError(f"acks is all, 1 or 0, not {acks!r}")
    target = _target(stage, arguments, "to")
    transactional, verified = arguments.flag("txn"), arguments.flag("verified")
    count = arguments.number("count", 0)
    producer_id = arguments.number("pid", -1)
    producer_epoch = arguments.number("producer-epoch", -1)
    producer = Producer(
        producer_id,
        max(0, producer_epoch) if producer_id >= 0 else producer_epoch,
        arguments.number("seq", -1),
        transactional,
    )
    texts = arguments.words()
    if bool(texts) == bool(count):
        raise ArgumentError("name the records, or say count=")
    if target is None:
        stage.narrator.line("client: finds no leader")
        return
    batches = [text.split("+") for text in texts] or [[""]] * count
    message = Produce(target, batches, ACKS[acks], producer)
    message.verified = verified
    if stage.gate.catches(gate.PRODUCE, CLIENT, message):
        stage.narrator.line(f"client -> {target.name} produce {message.name} | held")
    else:
        stage.producing.deliver(message)


@command("marker", "commit|abort pid=N [producer-epoch=N]")
def marker(stage: Stage, arguments: Arguments) -> None:
    """The transaction coordinator ends a transaction on the leader."""
    outcome = arguments.choice("an outcome", ("commit", "abort"))
    producer_id = arguments.number("pid", -1)
    leader = _target(stage, arguments, "to")
    if leader is None:
        raise ArgumentError("there is no leader")
    ending = WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=arguments.number("producer-epoch", 0),
        transaction_result=outcome == "commit",
        topics=[WritableTxnMarkerTopic(name=TOPIC, partition_indexes=[0])],
    )
    stage.producing.mark(
        leader, f"marker {outcome} pid={producer_id}", WriteTxnMarkersRequest(markers=[ending])
    )


@command(
    "consume",
    "offset=N [from=BROKER] [leader-epoch=N] [last-epoch=N] [rack=NAME] [read-committed]",
)
def consume(stage: Stage, arguments: Arguments) -> None:
    """A consumer fetches, once, from the leader or from the broker it was sent to."""
    broker = _reachable(stage, arguments)
    partition = FetchPartition(
        partition=0,
        current_leader_epoch=arguments.number("leader-epoch", NO_EPOCH),
        fetch_offset=arguments.number("offset", 0),
        last_fetched_epoch=arguments.number("last-epoch", NO_EPOCH),
        partition_max_bytes=PLENTY_BYTES,
    )
    request = FetchRequest(
        max_bytes=PLENTY_BYTES,
        isolation_level=int(arguments.flag("read-committed")),
        topics=[FetchTopic(topic_id=stage.partition.id.topic_id, partitions=[partition])],
        rack_id=arguments.option("rack") or "",
    )
    if broker is None:
        return
    response = cast(FetchResponse, stage.ask(broker, request, FETCH_VERSION))
    told = f"consumer -> {broker.name} fetch offset={partition.fetch_offset}"
    if partition.last_fetched_epoch != NO_EPOCH:
        told += f" last-epoch={partition.last_fetched_epoch}"
    stage.narrator.line(f"{told} | {_fetched_text(stage, response.responses[0].partitions[0])}")


def _fetched_text(stage: Stage, data: PartitionData) -> str:
    if data.error_code:
        return Error(data.error_code).name
    diverging = data.diverging_epoch
    if diverging is not None and diverging.end_offset >= 0:
        return f"diverging epoch={diverging.epoch} end-offset={diverging.end_offset}"
    if data.preferred_read_replica != NO_REPLICA:
        return f"read from {stage.cast.name_of(data.preferred_read_replica)}"
    batches = read_batches(data.records or b"")
    records = f"records {log_text(batches)}" if batches else "no records"
    return f"{records} high-watermark={data.high_watermark}"


@command("list-offsets", "latest|earliest [from=BROKER] [read-committed]")
def list_offsets(stage: Stage, arguments: Arguments) -> None:
    """A client asks where the partition ends, or begins."""
    which = arguments.choice("an offset", ("latest", "earliest"))
    read_committed = arguments.flag("read-committed")
    broker = _reachable(stage, arguments)
    if broker is None:
        return
    wanted = ListOffsetsPartition(timestamp=LATEST if which == "latest" else EARLIEST)
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(read_committed),
        topics=[ListOffsetsTopic(name=TOPIC, partitions=[wanted])],
    )
    response = cast(ListOffsetsResponse, stage.ask(broker, request, 9))
    (answer,) = response.topics[0].partitions
    broker.note(Error(answer.error_code).name if answer.error_code else f"{which}={answer.offset}")


@command("validate", "offset=N epoch=N [from=BROKER]")
def validate(stage: Stage, arguments: Arguments) -> None:
    """A consumer asks whether its position is still part of the log (OffsetForLeaderEpoch)."""
    offset, epoch = arguments.number("offset", 0), arguments.number("epoch", 0)
    broker = _reachable(stage, arguments)
    if broker is None:
        return
    asked = OffsetForLeaderPartition(partition=0, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(
        replica_id=-1, topics=[OffsetForLeaderTopic(topic=TOPIC, partitions=[asked])]
    )
    response = cast(OffsetForLeaderEpochResponse, stage.ask(broker, request, 4))
    (end,) = response.topics[0].partitions
    if end.error_code:
        broker.note(Error(end.error_code).name)
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


def _reachable(stage: Stage, arguments: Arguments) -> StageBroker | None:
    """Whom a consumer asks; None, and told, if it reaches nobody."""
    broker = _target(stage, arguments, "from")
    if broker is None:
        stage.narrator.line("client: finds no leader")
    elif not broker.answers:
        stage.narrator.line(f"client: no connection to {broker.name}")
    else:
        return broker
    return None
