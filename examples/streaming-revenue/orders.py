"""Orders of an invented shop, one line of JSON each, for `tidelog produce orders --json`."""

import json
import random
import sys
from datetime import UTC, datetime, timedelta

PRICES = {"espresso beans 1 kg": 22.9, "burr grinder": 189.0, "paper filters": 4.95}
OPENS = datetime(2026, 3, 2, 9, tzinfo=UTC)
MINUTES = 10


def order(number: int, at: datetime, chance: random.Random) -> dict[str, object]:
    product = chance.choice(list(PRICES))
    return {
        "order_id": f"o-{number:07}",
        "customer": f"c-{chance.randrange(100):04}",
        "product": product,
        "quantity": chance.randint(1, 3),
        "unit_price": PRICES[product],
        "currency": chance.choice(["EUR", "USD"]),
        "event_time": at.isoformat(),
    }


def main(count: int) -> None:
    """So many orders of ten minutes, then one of an hour later: it closes the last minutes."""
    chance = random.Random(4711)
    step = timedelta(minutes=MINUTES) / count
    times = [OPENS + number * step for number in range(count)] + [OPENS + timedelta(hours=1)]
    for number, at in enumerate(times):
        value = order(number, at, chance)
        print(json.dumps({"key": value["customer"], "value": json.dumps(value)}))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
