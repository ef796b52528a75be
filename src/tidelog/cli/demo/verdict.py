"""Three accounts of the same sales, compared: the producer's, the topic's and the table's.

The topic `revenue` is the fourth: what Spark made of them must be what anybody can add up.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tidelog.cli.demo.book import Sale, Total, Window, totals
from tidelog.cli.demo.orders import MINUTE_MS

SHOWN_MAX = 5


class WindowValue(NamedTuple):
    """One record of the topic `revenue`."""

    minute: int
    currency: str
    orders: int
    cents: int

    @property
    def window(self) -> Window:
        return self.minute, self.currency


class Accounts(NamedTuple):
    """Everything that is compared."""

    acknowledged: Sequence[Sale]
    in_doubt: frozenset[str]
    topic: Sequence[Sale]
    table: Sequence[Sale]
    revenue: Sequence[WindowValue]
    closes_ms: int
    """Windows from here on are still open: nothing is said about them yet."""


class Verdict(NamedTuple):
    acknowledged: int
    in_doubt: int
    topic: int
    table: int
    windows: int
    """Minutes and currencies that are over."""
    lost: int
    """Acknowledged, and not in the topic at that place with that content."""
    unexpected: int
    """In the topic, and neither acknowledged nor in doubt, or there twice."""
    lost_in_table: int
    unexpected_in_table: int
    wrong_windows: int
    """Missing, written twice, or with another number of orders or another sum."""
    cents: dict[str, int]
    """By currency, over the windows that are over, as acknowledged."""
    examples: list[str]

    @property
    def holds(self) -> bool:
        wrong = self.lost, self.unexpected, self.lost_in_table, self.unexpected_in_table
        return not any(wrong) and not self.wrong_windows


def judge(accounts: Accounts) -> Verdict:
    acknowledged, topic = Counter(accounts.acknowledged), Counter(accounts.topic)
    doubtful = Counter(
        {
            sale.order_id: sale for sale in accounts.topic if sale.order_id in accounts.in_doubt
        }.values()  # each once, however often it is there
    )
    table = Counter(accounts.table)
    sold = totals((acknowledged + doubtful).elements())
    over = {window: total for window, total in sold.items() if _is_over(window, accounts)}
    lost, unexpected = acknowledged - topic, topic - acknowledged - doubtful
    lost_in_table, unexpected_in_table = topic - table, table - topic
    wrong = wrong_windows(over, accounts.revenue)
    examples = [
        *_examples("acknowledged and not in the topic", lost),
        *_examples("in the topic and never acknowledged", unexpected),
        *_examples("in the topic and not in the table", lost_in_table),
        *_examples("in the table and not in the topic", unexpected_in_table),
        *wrong[:SHOWN_MAX],
    ]
    return Verdict(
        acknowledged=acknowledged.total(),
        in_doubt=len(accounts.in_doubt),
        topic=topic.total(),
        table=table.total(),
        windows=len(over),
        lost=lost.total(),
        unexpected=unexpected.total(),
        lost_in_table=lost_in_table.total(),
        unexpected_in_table=unexpected_in_table.total(),
        wrong_windows=len(wrong),
        cents=by_currency(over),
        examples=examples,
    )


def wrong_windows(expected: Mapping[Window, Total], found: Iterable[WindowValue]) -> list[str]:
    """One line per window that is not there exactly once with exactly this value."""
    values: dict[Window, list[Total]] = {}
    for value in found:
        values.setdefault(value.window, []).append(Total(value.orders, value.cents))
    lines = []
    for window in sorted(expected.keys() | values.keys()):
        wanted = [expected[window]] if window in expected else []
        if values.get(window, []) != wanted:
            lines.append(
                f"revenue of {window_name(window)}: {_told(values.get(window, []))}"
                f" in the topic, {_told(wanted)} acknowledged"
            )
    return lines


def by_currency(sums: Mapping[Window, Total]) -> dict[str, int]:
    cents: dict[str, int] = {}
    for (_, currency), total in sorted(sums.items()):
        cents[currency] = cents.get(currency, 0) + total.cents
    return cents


def window_name(window: Window) -> str:
    """`09:07 EUR`"""
    minute, currency = window
    return f"{minute // 60 % 24:02}:{minute % 60:02} {currency}"


def _is_over(window: Window, accounts: Accounts) -> bool:
    return window[0] * MINUTE_MS < accounts.closes_ms


def _told(values: Sequence[Total]) -> str:
    texts = [f"{each.orders} orders, {each.cents / 100:.2f}" for each in values]
    return " and again ".join(texts) or "nothing"


def _examples(what: str, sales: Counter[Sale]) -> list[str]:
    return [
        f"{what}: {sale.order_id} at orders-{sale.partition} offset {sale.offset}"
        for sale in sorted(sales)[:SHOWN_MAX]
    ]
