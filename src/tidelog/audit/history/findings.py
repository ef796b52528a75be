"""What came out of a history: counts, and the first few findings of each anomaly."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

INCONSISTENT_OFFSETS: Final = "inconsistent-offsets"
LOST_WRITE: Final = "lost-write"
UNSEEN: Final = "unseen"
DUPLICATE: Final = "duplicate"
ABORTED_READ: Final = "aborted-read"
PRECOMMITTED_READ: Final = "precommitted-read"
POLL_SKIP: Final = "poll-skip"
INT_POLL_SKIP: Final = "int-poll-skip"
NONMONOTONIC_POLL: Final = "nonmonotonic-poll"
INT_NONMONOTONIC_POLL: Final = "int-nonmonotonic-poll"
NONMONOTONIC_SEND: Final = "nonmonotonic-send"
INT_NONMONOTONIC_SEND: Final = "int-nonmonotonic-send"
WRITE_READ_CYCLE: Final = "write-read-cycle"

ANOMALIES: Final[Mapping[str, str]] = {
    INCONSISTENT_OFFSETS: "holds two different values, {value} and {other}",
    LOST_WRITE: "{value} was acknowledged and never read, though others were read up to {other}",
    UNSEEN: "{value} was acknowledged, and the last read did not find it",
    DUPLICATE: "{value} lies here and at offset {other}",
    ABORTED_READ: "{value} was read, and its writer failed or aborted",
    PRECOMMITTED_READ: "{value} was read by the transaction that had not committed it yet",
    POLL_SKIP: "came after {other}, over records that exist",
    INT_POLL_SKIP: "came after {other} in one poll, over records that exist",
    NONMONOTONIC_POLL: "came after {other}",
    INT_NONMONOTONIC_POLL: "came after {other} in one poll",
    NONMONOTONIC_SEND: "was given to a write that followed the one at {other}",
    INT_NONMONOTONIC_SEND: "was given within a transaction after {other}",
    WRITE_READ_CYCLE: "{other} transactions have read from each other in a circle",
}
"""What each says of the place that its finding names; none may be there."""

SHOWN_OF_EACH: Final = 10


class Finding(NamedTuple):
    """One violation and where it is."""

    anomaly: str
    topic: str | None
    partition: int | None
    offset: int | None
    client: str
    operation: int
    value: int | None
    other: int | None
    """What the words of the anomaly call so: another value, another offset, a count."""

    def told(self) -> str:
        """`lost-write: orders-0 offset 17 (writer-1, operation 4): …`"""
        words = ANOMALIES[self.anomaly].format(value=self.value, other=self.other)
        offset = "" if self.offset is None else f" offset {self.offset}"
        place = "" if self.topic is None else f"{self.topic}-{self.partition}{offset} "
        return f"{self.anomaly}: {place}({self.client}, operation {self.operation}): {words}"


class Totals(NamedTuple):
    """What a history amounts to, whether or not anything is wrong with it."""

    sent: int
    acknowledged: int
    in_doubt: int
    aborted: int
    """Surely not written, or in a transaction that was aborted."""
    polled: int
    """Records, by all clients together."""
    read_back: int
    """Different values of this history that anybody has read."""
    foreign: int
    """Different values that were read and that no client of this history wrote."""
    worst_lag_us: int
    """The longest time from an acknowledgement to the first poll that had the value."""
    drained: bool
    """It ends with a read of everything, so what is not there will never be."""
    stuck: bool
    """Nothing succeeded after everything was healed."""


class Findings(NamedTuple):
    totals: Totals
    counts: dict[str, int]
    """By anomaly, only those that were found."""
    shown: list[Finding]
    """The first few of each."""

    @property
    def violations(self) -> int:
        """Without a last read of everything, what was not seen may still come."""
        return sum(
            number
            for anomaly, number in self.counts.items()
            if anomaly != UNSEEN or self.totals.drained
        )

    @property
    def holds(self) -> bool:
        return not self.violations

    @property
    def lost(self) -> int:
        return self._sum(LOST_WRITE) + (self._sum(UNSEEN) if self.totals.drained else 0)

    @property
    def out_of_order(self) -> int:
        return self._sum(
            NONMONOTONIC_POLL, INT_NONMONOTONIC_POLL, NONMONOTONIC_SEND, INT_NONMONOTONIC_SEND
        )

    def line(self) -> str:
        """The verdict in one line."""
        parts = [
            f"acknowledged {self.totals.acknowledged:,}",
            f"read back {self.totals.read_back:,}",
            f"lost {self.lost:,}",
            f"duplicated {self._sum(DUPLICATE):,}",
            f"out of order {self.out_of_order:,}",
            f"aborted but visible {self._sum(ABORTED_READ):,}",
        ]
        parts += [
            f"{words} {number:,}"
            for words, number in (
                ("inconsistent offsets", self._sum(INCONSISTENT_OFFSETS)),
                ("read before commit", self._sum(PRECOMMITTED_READ)),
                ("skipped", self._sum(POLL_SKIP, INT_POLL_SKIP)),
                ("circles", self._sum(WRITE_READ_CYCLE)),
                ("not read yet", 0 if self.totals.drained else self._sum(UNSEEN)),
                ("in doubt", self.totals.in_doubt),
                ("from others", self.totals.foreign),
            )
            if number
        ]
        return " · ".join(parts)

    def as_document(self) -> dict[str, Any]:
        return {
            **self.totals._asdict(),
            "ok": self.holds,
            "anomalies": self.counts,
            "findings": [{**each._asdict(), "text": each.told()} for each in self.shown],
        }

    def _sum(self, *anomalies: str) -> int:
        return sum(self.counts.get(each, 0) for each in anomalies)


def gathered(totals: Totals, found: Iterable[Finding], most: int) -> Findings:
    """In the order of the table of anomalies, then by place."""
    counts: dict[str, int] = {}
    kept: dict[str, list[Finding]] = {}
    for each in found:
        counts[each.anomaly] = counts.get(each.anomaly, 0) + 1
        kept.setdefault(each.anomaly, []).append(each)
    return Findings(
        totals,
        {name: counts[name] for name in ANOMALIES if name in counts},
        [each for name in ANOMALIES for each in sorted(kept.get(name, ()), key=in_order)[:most]],
    )


def in_order(finding: Finding) -> tuple[tuple[bool, Any], ...]:
    """By place, then by client; what is missing comes first, as it does in Spark."""
    return tuple((field is not None, field) for field in finding[1:])
