"""What to tell a user when the cluster does not take what a sink writes."""

from collections.abc import Mapping
from typing import Final

from tidelog.client import ClientError, ClusterUnreachable, KafkaError
from tidelog.core.errors import Error
from tidelog.spark.failure import TidelogError
from tidelog.spark.security_options import UNREACHABLE_ADVICE, advice_for

FENCED: Final = frozenset((Error.PRODUCER_FENCED, Error.INVALID_PRODUCER_EPOCH))

ADVICE: Final[Mapping[int, str]] = {
    Error.MESSAGE_TOO_LARGE: "lower kafka.batch.size or raise max.message.bytes of the topic",
    Error.RECORD_LIST_TOO_LARGE: "lower kafka.batch.size or raise segment.bytes of the topic",
    Error.UNKNOWN_TOPIC_OR_PARTITION: "create the topic first",
    Error.INVALID_TOPIC_EXCEPTION: "choose another topic",
    Error.INVALID_RECORD: "look at the rows: a compacted topic needs keys",
    Error.INVALID_TIMESTAMP: "look at the column timestamp, or leave it out",
    Error.INVALID_TRANSACTION_TIMEOUT: "lower kafka.transaction.timeout.ms to what the brokers'"
    " transaction.max.timeout.ms allows",
    Error.UNSUPPORTED_VERSION: "exactly once needs transactions of version 2 (Kafka 4.0);"
    " say exactlyOnce=false to write at least once",
    Error.NOT_ENOUGH_REPLICAS: "bring back the brokers of its replicas",
    Error.COORDINATOR_NOT_AVAILABLE: "see `tidelog cluster health`: too few replicas of"
    " __transaction_state are in sync, or the brokers have too much to do; then start again",
    Error.CONCURRENT_TRANSACTIONS: "see `tidelog txn describe`: the end of the transaction before"
    " has not reached all its partitions; then start again",
}
LASTING: Final = frozenset(ADVICE) - {
    Error.NOT_ENOUGH_REPLICAS,
    Error.COORDINATOR_NOT_AVAILABLE,
    Error.CONCURRENT_TRANSACTIONS,
    Error.UNKNOWN_TOPIC_OR_PARTITION,  # brokers hear of a topic one after the other
}


def is_lasting(error: ClientError) -> bool:
    """Whether the same would be refused again."""
    if advice_for(error) is not None:
        return True
    return isinstance(error, KafkaError) and error.error in LASTING


def told(error: ClientError, what: str, advice: str) -> TidelogError:
    """`what` says what was not done; `advice` is for errors that nothing better is known of."""
    better = advice_for(error)
    if better is not None:
        return TidelogError(f"{what}: {error}", better)
    if isinstance(error, KafkaError):
        advice = ADVICE.get(error.error, advice)
        return TidelogError(f"{what}: {error}", advice)
    if isinstance(error, ClusterUnreachable):
        return TidelogError(f"{what}: {error}", UNREACHABLE_ADVICE)
    return TidelogError(f"{what}: {error}", advice)


def no_topic(name: str, bootstrap: str) -> TidelogError:
    return TidelogError(
        f"there is no topic {name} at {bootstrap}",
        f"create it (tidelog topic create {name}) or let the brokers make topics"
        " (auto.create.topics.enable)",
    )
