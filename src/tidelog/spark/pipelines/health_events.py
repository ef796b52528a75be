"""Events of a cluster as rows, in an order that does not depend on anybody's clock.

What the controller decided is ordered by the epoch of the claim it was decided under and, within
it, by the number that the node gave to the event; for one partition by its partition epoch. What
a broker saw is ordered by its own numbers. Clocks are used only for how long something took.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EVENTS_TOPIC = "__tidelog_events"

EVENT_FIELDS = (
    "node INT, number BIGINT, stream BIGINT, time_ms BIGINT, event STRING, text STRING, "
    "topic STRING, topic_id STRING, index INT, broker INT, leader INT, leader_epoch INT, "
    "partition_epoch INT, previous STRING, isr ARRAY<INT>, elr ARRAY<INT>, unclean BOOLEAN, "
    "controller_epoch INT, broker_epoch BIGINT, base_offset BIGINT, next_offset BIGINT, "
    "start_offset BIGINT, high_watermark BIGINT, previous_end BIGINT, log_end_offset BIGINT"
)
"""Of all kinds of events together. `previous` is a number in some and a list in others: JSON."""

# A node that heard no answer writes an event again, under the same numbers. A claim holds for
# whatever its node tells until the next one; -1 before the first.
KNOWN = """
SELECT *, coalesce(
    last_value(CASE WHEN event = 'ControllerClaimed' THEN controller_epoch END, true)
      OVER (PARTITION BY node, stream ORDER BY number), -1) AS claim
FROM (
  SELECT *, row_number() OVER (
    PARTITION BY node, stream, number ORDER BY topic_offset) AS copy
  FROM {events})
WHERE copy = 1
"""


def parsed(rows: "DataFrame") -> "DataFrame":
    """One row per event, whatever its kind, from records with `value`; what is none is dropped."""
    told = rows.selectExpr(
        "offset AS topic_offset", f"from_json(CAST(value AS STRING), '{EVENT_FIELDS}') AS told"
    )
    return told.selectExpr("topic_offset", "told.*").where(
        "event IS NOT NULL AND stream IS NOT NULL"
    )


def known(events: "DataFrame") -> "DataFrame":
    """Each event once, with `claim`: the controller epoch under which its node told it."""
    return events.sparkSession.sql(KNOWN, events=events)
