"""`tidelog cluster apis`"""

from typing import Any

import click

from tidelog.cli.asking import Asking, asks_cluster
from tidelog.cli.lazy import shared_options, table_option
from tidelog.cli.tables import Column, show
from tidelog.client import Client
from tidelog.client.links import ApiSpan
from tidelog.wire.protocol import API_BY_KEY

COLUMNS = (
    Column("KEY", "key"),
    Column("API", "name"),
    Column("VERSIONS", "versions"),
    Column("OURS", "ours", wide=True),
    Column("BROKERS", "brokers"),
)


@click.command(name="apis")
@asks_cluster
@table_option
@shared_options
def command(asking: Asking, output: str) -> None:
    """List the APIs that the brokers serve, and in which versions.

    \b
    Examples:
      tidelog cluster apis
      tidelog cluster apis -b kafka-1:9092 -o json
    """

    async def look(client: Client) -> dict[int, dict[int, ApiSpan]]:
        return await client.offers(timeout_ms=asking.timeout_ms)

    rows = rows_of(asking.run(look))
    show(output, rows, COLUMNS, rows)


def rows_of(offers: dict[int, dict[int, ApiSpan]]) -> list[dict[str, Any]]:
    """One row per API and range: brokers that differ stand apart."""
    found: dict[ApiSpan, list[int]] = {}
    for broker_id, spans in sorted(offers.items()):
        for span in spans.values():
            found.setdefault(span, []).append(broker_id)
    rows = []
    for span, brokers in sorted(found.items()):
        api = API_BY_KEY.get(span.key)
        rows.append(
            {
                "key": span.key,
                "name": api.name if api is not None else "unknown to tidelog",
                "versions": _range(span.first, span.last),
                "ours": _range(api.full.first, api.full.last) if api is not None else None,
                "brokers": brokers,
            }
        )
    return rows


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"
