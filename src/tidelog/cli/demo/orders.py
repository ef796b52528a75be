"""Orders of an invented shop: made from a seed, so that any two runs sell the same things."""

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS
OPENS_MS = int(datetime(2026, 3, 2, 9, tzinfo=UTC).timestamp() * 1000)
CUSTOMERS = 400
LATE_MS_MAX = 15_000
"""Orders reach the log a little out of order, as they do from many tills."""

PRODUCTS = {
    "espresso beans 1 kg": 2290,
    "pour-over kettle": 6450,
    "paper filters": 495,
    "burr grinder": 18900,
    "milk jug": 1799,
    "stoneware cup": 1250,
    "moka pot": 3480,
    "cold brew bottle": 2735,
    "descaler": 899,
    "travel mug": 2165,
}
"""Prices in cents."""
CURRENCIES = {"EUR": 6, "USD": 3, "GBP": 1}
"""How many of ten customers pay with which."""


class Order(NamedTuple):
    order_id: str
    customer: str
    product: str
    quantity: int
    price_cents: int
    currency: str
    event_time_ms: int

    @property
    def minute(self) -> int:
        """Of its event time, since 1970."""
        return self.event_time_ms // MINUTE_MS

    @property
    def cents(self) -> int:
        return self.quantity * self.price_cents

    def as_json(self) -> bytes:
        """What is written to the topic."""
        time = datetime.fromtimestamp(self.event_time_ms / 1000, UTC)
        document = {
            "order_id": self.order_id,
            "customer": self.customer,
            "product": self.product,
            "quantity": self.quantity,
            "unit_price": self.price_cents / 100,
            "currency": self.currency,
            "event_time": time.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        }
        return json.dumps(document, separators=(",", ":")).encode()


class Shop(NamedTuple):
    """So many orders, spread over so many minutes of the shop's own time."""

    orders: int
    minutes: int
    seed: int = 4711

    @property
    def closes_ms(self) -> int:
        return OPENS_MS + self.minutes * MINUTE_MS

    def sell(self) -> Iterator[Order]:
        """Every order of a day, then the first one of the next: by it, whoever reads knows that
        the last minutes of the first day are over."""
        chance = random.Random(self.seed)  # noqa: S311 - the same orders again is the purpose
        for number in range(self.orders):
            into_day_ms = number * self.minutes * MINUTE_MS // self.orders
            late_ms = min(chance.randrange(LATE_MS_MAX), into_day_ms)
            yield self._order(chance, number, OPENS_MS + into_day_ms - late_ms)
        yield self._order(chance, self.orders, OPENS_MS + DAY_MS)

    def _order(self, chance: random.Random, number: int, event_time_ms: int) -> Order:
        customer = int(CUSTOMERS * chance.random() ** 2)  # some buy much more often than others
        currency = _currency_of(customer)
        product, price_cents = chance.choice(list(PRODUCTS.items()))
        quantity = chance.choices((1, 2, 3, 6), (70, 20, 7, 3))[0]
        return Order(
            f"o-{number:07}",
            f"c-{customer:04}",
            product,
            quantity,
            price_cents,
            currency,
            event_time_ms,
        )


def _currency_of(customer: int) -> str:
    shares = [each for each, share in CURRENCIES.items() for _ in range(share)]
    return shares[customer % len(shares)]
