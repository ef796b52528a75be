"""Writing a history down while it happens."""

import time
from collections.abc import Callable

from tidelog.audit.history.rows import (
    ASSIGN,
    HEALED,
    INFO,
    OK,
    POLL,
    SEND,
    Row,
    value_number,
)
from tidelog.client.consumer import Fetched

AUDIT_CLIENT = "audit"


class Recorder:
    """The rows of all clients. An operation is added when it has ended."""

    __slots__ = ("_operations", "acknowledged", "rows")

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.acknowledged = 0
        self._operations: dict[str, int] = {}

    def begin(self, client: str, *, transaction: str | None = None) -> "Operation":
        number = self._operations.get(client, 0)
        self._operations[client] = number + 1
        named = None if transaction is None else f"{transaction}/{number}"
        return Operation(self._add, client, number, named)

    def assigned(self, client: str) -> None:
        """From here on it goes where it chooses."""
        self.begin(client).end_with(ASSIGN)

    def healed(self) -> None:
        self.begin(AUDIT_CLIENT).end_with(HEALED)

    def _add(self, rows: list[Row]) -> None:
        self.rows += rows
        self.acknowledged += sum(row.op == SEND and row.outcome == OK for row in rows)


class Operation:
    """One call of one client, from its beginning to its outcome."""

    __slots__ = ("_add", "_client", "_invoke_us", "_number", "_rows", "_transaction")

    def __init__(
        self, add: Callable[[list[Row]], None], client: str, number: int, transaction: str | None
    ) -> None:
        self._add = add
        self._client = client
        self._number = number
        self._transaction = transaction
        self._invoke_us = now_us()
        self._rows: list[Row] = []

    def sent(
        self, topic: str, partition: int, value: bytes, *, key: bytes | None, offset: int | None
    ) -> None:
        """Its offset if it was told; what becomes of it is said in the end."""
        row = self._row(SEND, INFO)._replace(
            topic=topic, partition=partition, offset=offset, key=key, value=value_number(value)
        )
        self._rows.append(row)

    def polled(self, fetched: Fetched) -> None:
        for each in fetched.reads:
            record = each.record
            row = self._row(POLL, OK, now_us())._replace(
                topic=each.topic,
                partition=each.partition,
                offset=record.offset,
                key=None if record.key is None else bytes(record.key),
                value=value_number(record.value),
            )
            self._rows.append(row)

    def end(self, outcome: str) -> None:
        """What was polled was seen, whatever becomes of the rest."""
        complete_us = now_us()
        self._add(
            [
                row._replace(outcome=outcome, complete_us=complete_us) if row.op == SEND else row
                for row in self._rows
            ]
        )

    def end_with(self, op: str, outcome: str = OK) -> None:
        """Something that concerns no record: one row."""
        self._add([self._row(op, outcome, now_us())])

    def _row(self, op: str, outcome: str, complete_us: int | None = None) -> Row:
        return Row(
            self._client,
            self._number,
            len(self._rows),
            op,
            self._invoke_us,
            complete_us,
            None,
            None,
            None,
            None,
            None,
            outcome,
            self._transaction,
        )


def now_us() -> int:
    return time.monotonic_ns() // 1_000
