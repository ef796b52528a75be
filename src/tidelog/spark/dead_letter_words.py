"""The words around records that could not be decoded; needs no Spark."""

from typing import Final

STOP, SKIP, DEAD_LETTER = ACTIONS = ("stop", "skip", "dead-letter")
SUFFIX: Final = ".dead-letters"
"""After the name of a topic: where its dead letters go."""
PREFIX: Final = "tidelog.dead-letter."
"""Of the headers that a dead letter has beside those of its record."""
REASON, TOPIC, PARTITION, OFFSET, TIMESTAMP, PIPELINE = HEADERS = tuple(
    PREFIX + each for each in ("reason", "topic", "partition", "offset", "timestamp", "pipeline")
)
