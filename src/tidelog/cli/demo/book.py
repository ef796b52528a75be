"""What was sold: every order that was sent, and where the cluster said that it put it."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tidelog.cli.demo.orders import Order

Window = tuple[int, str]
"""(minute since 1970, currency)"""


class Sale(NamedTuple):
    """One order at its place, as the producer was told or as somebody read it."""

    partition: int
    offset: int
    order_id: str
    minute: int
    currency: str
    cents: int

    @property
    def window(self) -> Window:
        return self.minute, self.currency


class Total(NamedTuple):
    orders: int
    cents: int


class Answered(NamedTuple):
    """One batch that was acknowledged, in seconds of `time.monotonic`."""

    partition: int
    orders: int
    at: float


class Book:
    """Filled by the producer alone."""

    __slots__ = ("acknowledged", "answers", "failures", "in_doubt", "sent")

    def __init__(self) -> None:
        self.sent = 0
        self.acknowledged: list[Sale] = []
        self.in_doubt: set[str] = set()
        """Ids of orders that were sent and given up: they may be there or not."""
        self.answers: list[Answered] = []
        self.failures: list[str] = []

    def acknowledge(self, orders: Sequence[Order], partition: int, offset: int, at: float) -> None:
        """These orders are in one partition, one after the other from this offset on."""
        self.answers.append(Answered(partition, len(orders), at))
        self.acknowledged.extend(
            sale_of(order, partition, offset + place) for place, order in enumerate(orders)
        )

    def doubt(self, orders: Iterable[Order], why: str) -> None:
        self.failures.append(why)
        self.in_doubt.update(order.order_id for order in orders)


def sale_of(order: Order, partition: int, offset: int) -> Sale:
    return Sale(partition, offset, order.order_id, order.minute, order.currency, order.cents)


def totals(sales: Iterable[Sale]) -> dict[Window, Total]:
    """Orders and money per minute and currency."""
    sums: dict[Window, Total] = {}
    for sale in sales:
        before = sums.get(sale.window, Total(0, 0))
        sums[sale.window] = Total(before.orders + 1, before.cents + sale.cents)
    return sums
