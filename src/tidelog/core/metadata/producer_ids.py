"""Blocks of producer ids for brokers to hand out: no id is ever given twice."""

from tidelog.core.errors import Error
from tidelog.core.metadata.decision import Decision, View, sender
from tidelog.core.metadata.records import ProducerIds
from tidelog.core.requests import AllocateProducerIdsRequest, AllocateProducerIdsResponse

PRODUCER_ID_BLOCK = 1000


def decide_producer_ids(view: View, request: AllocateProducerIdsRequest) -> Decision:
    """A repeated request gets another block: ids are plenty, a shared one would be a bug."""
    broker = sender(view.image, request.broker_id, request.broker_epoch)
    if broker is None:
        return Decision(AllocateProducerIdsResponse(Error.STALE_BROKER_EPOCH))
    start = view.image.next_producer_id
    record = ProducerIds(broker.broker_id, broker.broker_epoch, start + PRODUCER_ID_BLOCK)
    response = AllocateProducerIdsResponse(Error.NONE, start, PRODUCER_ID_BLOCK)
    return Decision(response, (record,))
