"""How much of what is there one micro-batch takes. Pure."""

from collections.abc import Mapping

from tidelog.spark.ranges import Offsets, TopicPartition
from tidelog.spark.source_options import Admission

Sizes = Mapping[TopicPartition, float]


def backlog(begins: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> Offsets:
    """Offsets that are to be read, of partitions that have any."""
    return {where: ends[where] - begins[where] for where in ends if ends[where] > begins[where]}


def admit(
    begins: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    admission: Admission,
    offset_bytes: Sizes,
) -> Offsets:
    """Where the batch ends: every partition gives in proportion to what it has, and at least one
    offset, so that none waits for ever. `offset_bytes` is what an offset of each weighs."""
    waiting = backlog(begins, ends)
    admitted = dict(waiting)
    if admission.max_offsets is not None:
        # One for each, and the rest of the limit in proportion to the rest of what they have.
        count, total = len(waiting), sum(waiting.values())
        left = max(0, admission.max_offsets - count)
        if total > admission.max_offsets:
            admitted = {
                where: 1 + left * (size - 1) // max(1, total - count)
                for where, size in waiting.items()
            }
    if admission.max_bytes is not None:
        weight = sum(size * offset_bytes[where] for where, size in admitted.items())
        if weight > admission.max_bytes:
            share = admission.max_bytes / weight
            admitted = {where: max(1, int(size * share)) for where, size in admitted.items()}
    return {
        where: begins[where] + admitted[where] if where in admitted else ends[where]
        for where in ends
    }


def must_wait(waiting: Offsets, admission: Admission, since_last_ms: float) -> bool:
    """Whether there is too little for a batch, and time to wait for more."""
    if admission.min_offsets is None or since_last_ms >= admission.max_delay_ms:
        return False
    return sum(waiting.values()) < admission.min_offsets
