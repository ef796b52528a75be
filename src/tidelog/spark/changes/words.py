"""The words of change events and of the tables that follow them. Needs neither Spark nor Arrow."""

from typing import Final, NamedTuple

PLAIN, DEBEZIUM = CHANGE_FORMATS = ("plain", "debezium")

TOPIC: Final = "tidelog_topic"
PARTITION: Final = "tidelog_partition"
OFFSET: Final = "tidelog_offset"
TIMESTAMP: Final = "tidelog_timestamp"
POSITION: Final = "tidelog_position"
"""Where the event stands at its source, as text that sorts as positions do; empty: it says nothing,
and partition and offset decide alone."""
BUCKET: Final = "tidelog_bucket"
WHERE: Final = (TOPIC, PARTITION, OFFSET, TIMESTAMP, POSITION)
"""Columns of a row that say which event it is from."""

KIND: Final = "tidelog_kind"
IDENTITY: Final = "tidelog_identity"
"""Topic and key as bytes; of a bad record the key as it was."""
HEADERS: Final = "tidelog_headers"
CONTROL: Final = (KIND, IDENTITY)
"""Columns of a change that are in no table."""

PUT, DELETE, TOMBSTONE, TRUNCATE, BAD = KINDS = ("put", "delete", "tombstone", "truncate", "bad")

BUCKETS: Final = 16
KEEP_DELETED_MS: Final = 7 * 24 * 3600 * 1000


class ChangeRules(NamedTuple):
    """How records become rows of a table. Goes to tasks."""

    form: str = PLAIN
    key: tuple[str, ...] = ()
    """Columns of the row that say which row it is; none: the key of the record does."""
    order_by: tuple[str, ...] = ()
    """Columns of the row that say where the event stands; none: its source block, if it has one."""
    buckets: int = BUCKETS

    @property
    def tombstones_have_no_place(self) -> bool:
        """Whether a record without a value does not say where it stands among the others."""
        return self.form == DEBEZIUM or bool(self.order_by)
