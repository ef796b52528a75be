"""committed-offset-checkpoint: how much of the metadata log this node knows to be committed.

A lower bound that is allowed to be old: it is replaced now and then, and covers only what was
synced here before. It lets a restarted node tell a leader that may cut its log from one that has
lost its own (ADR 0033). One that cannot be read only protects less.
"""

import logging

from tidelog.core.types import NO_OFFSET
from tidelog.host.ports import Disk
from tidelog.storage import checkpoints
from tidelog.storage.errors import CorruptFile

FILE_NAME = "committed-offset-checkpoint"

_METADATA = ("__cluster_metadata", 0)
_LOGGER = logging.getLogger("tidelog.storage")


def write_committed_offset(disk: Disk, path: str, offset: int) -> None:
    checkpoints.write_offsets(disk, path, {_METADATA: offset})


def read_committed_offset(disk: Disk, path: str) -> int:
    """-1 if nothing is known."""
    try:
        return checkpoints.read_offsets(disk, path).get(_METADATA, NO_OFFSET)
    except CorruptFile as error:
        _LOGGER.warning("%s; this node does not know what of its metadata was committed", error)
        return NO_OFFSET
