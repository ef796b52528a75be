"""What the story found, for people and for programs."""

from pathlib import Path
from typing import Any, NamedTuple

from accounts import Money, Table, Verdict, total
from rides import AVRO, Events, Size

Said = list[tuple[float, dict]]
"""(when, what a process told)"""


class Facts(NamedTuple):
    size: Size
    events: Events
    table: Table
    verdict: Verdict
    left_out: Money
    written: dict
    """What the producer said at its end."""
    producer: Said
    jobs: dict[str, Said]
    """Batches of both."""
    again: dict[str, tuple[float, dict]]
    """The first batch of each after its driver was killed."""
    marks: dict[str, float]
    led: list[int]
    behind: float
    """Seconds from the last event of the day until both jobs had everything."""

    @property
    def money(self) -> Money:
        return total(self.table.money.values())


def rows(facts: Facts) -> list[tuple[str, str]]:
    return [*_happened(facts), *_found(facts)]


def _happened(facts: Facts) -> list[tuple[str, str]]:
    verdict = facts.verdict
    rate = facts.written["acknowledged"] / facts.written["seconds"]
    late = int((facts.events.late & (facts.events.written_as == AVRO)).sum())
    back = facts.marks["broker back"] - facts.marks["broker killed"]
    return [
        ("written", f"{verdict.events:,} events of {verdict.events // 3:,} rides, acks=all"),
        ("produce", f"{rate:,.0f} events/s for {facts.written['seconds']:.0f} s"),
        ("late", f"{late:,} events, 1 to 5 minutes after they happened"),
        ("schema", f"version 2 at half-time; {facts.table.with_fee:,} rows have its field"),
        (
            "broker killed",
            f"leader of {len(facts.led)} of the partitions; back and in sync {back:.1f} s later",
        ),
        ("drivers killed", _again(facts)),
        ("Spark, table", _flow(facts.jobs["archive"])),
        ("Spark, windows", _flow(facts.jobs["zone_revenue"])),
        ("caught up", f"{facts.behind:.1f} s after the last event of the day"),
    ]


def _found(facts: Facts) -> list[tuple[str, str]]:
    verdict, table, money, missed = facts.verdict, facts.table, facts.money, facts.left_out
    return [
        (
            "dead letters",
            _wrong(
                f"{verdict.letters:,} values were JSON; repaired and replayed",
                {"TOO MANY OR TOO FEW": verdict.wrong_letters},
            ),
        ),
        (
            "in the table",
            _wrong(
                f"{table.rows:,} events, each ride once",
                {"LOST": verdict.lost, "DOUBLED": verdict.doubled, "STRANGE": verdict.strangers},
            ),
        ),
        (
            "money, by Polars",
            _wrong(
                f"{verdict.places:,} zones and minutes, every cent right",
                {"WRONG": verdict.wrong_money},
            ),
        ),
        (
            "windows",
            _wrong(
                f"{verdict.windows:,} of a zone and a minute, each once, every cent right",
                {"WRONG": verdict.wrong_windows},
            ),
        ),
        (
            "after closing",
            f"{missed.rides:,} rides, {dollars(missed.revenue_cents)}: in the table alone",
        ),
        (
            "taken",
            f"fares {dollars(money.fare_cents)} · tips {dollars(money.tip_cents)} · "
            f"congestion fees {dollars(money.fee_cents)}",
        ),
    ]


def dollars(cents: int) -> str:
    """Whole cents, never a float."""
    return f"${cents // 100:,}.{cents % 100:02}"


def _wrong(text: str, found: dict[str, int]) -> str:
    wrong = ", ".join(f"{count:,} {name}" for name, count in found.items() if count)
    return f"NOT RIGHT: {wrong}" if wrong else text


def _again(facts: Facts) -> str:
    killed = facts.marks["drivers killed"]
    first = max(at for at, _ in facts.again.values())
    numbers = " and ".join(str(said["batch"]) for _, said in facts.again.values())
    return f"both; they went on with batches {numbers} within {first - killed:.1f} s"


def _flow(batches: Said) -> str:
    some = [said for _, said in batches if said["rows_in"]]
    fastest = max((said["rows_in"] / said["seconds"] for said in some), default=0)
    count = sum(said["rows_in"] for said in some)
    return f"{count:,} rows told in {len(some)} batches, up to {fastest:,.0f} rows/s"


def print_report(facts: Facts, directory: Path, seconds: float) -> None:
    print()
    for label, text in [*rows(facts), ("plot", str(directory / "rides.png"))]:
        print(f"  {label:<18} {text}")
    for text in facts.verdict.examples:
        print(f"  {text}")
    print(f"\n{'ok' if facts.verdict.holds else 'NOT OK'} · {seconds:.0f} s", flush=True)


def document(facts: Facts) -> dict[str, Any]:
    return {
        "ok": facts.verdict.holds,
        "size": facts.size._asdict(),
        "verdict": facts.verdict._asdict(),
        "written": facts.written,
        "rows": facts.table.rows,
        "with_fee": facts.table.with_fee,
        "left_out": facts.left_out._asdict(),
        "money": facts.money._asdict(),
        "marks": {name: round(at, 3) for name, at in facts.marks.items()},
        "batches_after_the_kill": {name: said["batch"] for name, (_, said) in facts.again.items()},
        "lines": dict(rows(facts)),
    }
