"""Histories for tests, written down as they happen."""

from typing import Any, Self

from tidelog.audit.history.rows import (
    ASSIGN,
    HEALED,
    LOG_START,
    OK,
    POLL,
    READ_BACK,
    SEND,
    SUBSCRIBE,
    Row,
)

TOPIC = "orders"


class History:
    """A history of `orders`: every call is one operation, and takes ten microseconds."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._operations: dict[str, int] = {}
        self._now_us = 0

    def sent(self, value: int, offset: int | None = None, **how: Any) -> Self:
        return self._operation("w", [(SEND, value, offset)], **how)

    def polled(self, *reads: tuple[int, int], **how: Any) -> Self:
        """Reads as (offset, value)."""
        return self._operation("r", [(POLL, value, offset) for offset, value in reads], **how)

    def transaction(self, *steps: tuple[str, int, int | None], **how: Any) -> Self:
        """Steps as (op, value, offset); what it polled is read whatever becomes of it."""
        return self._operation("t", list(steps), transactional=True, **how)

    def drained(self, *reads: tuple[int, int], **how: Any) -> Self:
        steps = [(READ_BACK, value, offset) for offset, value in reads]
        return self._operation("drain", steps, **how)

    def assigned(self, by: str = "r") -> Self:
        return self.row(op=ASSIGN, client=by, operation=self._next(by))

    def subscribed(self, by: str = "r") -> Self:
        return self.row(op=SUBSCRIBE, client=by, operation=self._next(by))

    def log_start(self, offset: int, partition: int = 0) -> Self:
        return self.row(op=LOG_START, topic=TOPIC, partition=partition, offset=offset)

    def healed(self) -> Self:
        self._now_us += 10
        return self.row(op=HEALED, client="audit", invoke_us=self._now_us)

    def row(self, **fields: Any) -> Self:
        """Any row, right or wrong."""
        empty = dict.fromkeys(Row._fields)
        usual = {"client": "x", "operation": 0, "step": 0, "invoke_us": 0, "outcome": OK}
        self.rows.append(Row(**{**empty, **usual, **fields}))
        return self

    def _next(self, client: str) -> int:
        number = self._operations.get(client, 0)
        self._operations[client] = number + 1
        return number

    def _operation(
        self,
        usual_client: str,
        steps: list[tuple[str, int, int | None]],
        *,
        by: str | None = None,
        outcome: str = OK,
        partition: int = 0,
        transactional: bool = False,
        at_us: int | None = None,
    ) -> Self:
        client = by or usual_client
        number = self._next(client)
        self._now_us = self._now_us + 10 if at_us is None else at_us
        for step, (op, value, offset) in enumerate(steps):
            self.row(
                client=client,
                operation=number,
                step=step,
                op=op,
                invoke_us=self._now_us - (10 if at_us is None else 0),
                complete_us=self._now_us,
                topic=TOPIC,
                partition=partition,
                offset=offset,
                value=value,
                outcome=outcome if op == SEND else OK,
                transaction=f"{client}/{number}" if transactional else None,
            )
        return self
