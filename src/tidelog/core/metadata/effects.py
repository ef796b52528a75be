"""What the controller wants done, in the order in which it must be done."""

from typing import NamedTuple

from tidelog.core.events import Event
from tidelog.core.metadata.records import MetadataRecord
from tidelog.core.requests import ControllerResponse


class AppendRecords(NamedTuple):
    """One atomic batch for the metadata log. It must land exactly at `base_offset`: the
    records are already part of the controller's current image."""

    records: tuple[MetadataRecord, ...]
    base_offset: int


class Answer(NamedTuple):
    """Everything this response says is committed."""

    token: object
    response: ControllerResponse


Effect = AppendRecords | Answer | Event
