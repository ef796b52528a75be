"""How far batches follow one another, with everything that can be checked about them.

The usual case of every read, and the cheap half of it: who wants to know why it stops looks at
the batch where it does. Compiled where that was built, as in `wire.kernel`; this is the twin.
"""

import os
from collections.abc import Callable

from tidelog.wire.records.errors import InvalidBatch
from tidelog.wire.records.header import Buffer, check_crc, iter_batches

Follow = Callable[[Buffer, int, int, int], tuple[int, int]]


def follow_in_python(
    region: Buffer, next_offset: int, end_offset: int, leader_epoch: int
) -> tuple[int, int]:
    """What `_native.contract` says."""
    end = 0
    try:
        for position, header in iter_batches(region):
            if (
                header.base_offset != next_offset
                or header.last_offset >= end_offset
                or header.leader_epoch != leader_epoch
                or not check_crc(region, position, header)
            ):
                break
            end, next_offset = position + header.size_bytes, header.next_offset
    except InvalidBatch:
        pass
    return end, next_offset


def compiled() -> Follow | None:
    """The compiled one, if the package was built with a compiler."""
    try:
        from tidelog._native import chain  # noqa: PLC0415 - may be absent
    except ImportError:
        return None
    return chain.follow


follow: Follow = (None if os.environ.get("TIDELOG_PURE") == "1" else compiled()) or follow_in_python
