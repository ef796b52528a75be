"""The transaction coordinator of one partition of `__transaction_state` (KIP-98, KIP-890).

It knows per transactional id which producer is the current one, and what its transaction is
about to become. A decision is a record: once `PREPARE_*` is committed, no other one can be made,
and every coordinator that reads it orders the same markers until all partitions have them.

What stands in the log changes only in `replay`. Beside it are two things a new coordinator
makes anew: when an ongoing transaction times out, and which partitions still lack a marker.
"""

from collections.abc import Sequence

from tidelog.core.coordination import (
    NOTHING,
    Answer,
    Instant,
    Marker,
    Outcome,
    ProducerStamp,
    TopicPartition,
    Write,
)
from tidelog.core.errors import NO_ERROR, Error
from tidelog.core.events import TransactionBegan, TransactionEnded
from tidelog.core.transactions import rules, transitions
from tidelog.core.transactions.records import Transaction, TransactionValue
from tidelog.core.transactions.requests import (
    AddPartitions,
    AddPartitionsResponse,
    DescribedTransaction,
    DescribeTransaction,
    EndTransaction,
    InitProducer,
    ListedTransaction,
    ListTransactions,
    ListTransactionsResponse,
    MarkersWritten,
    ProducerIdentity,
    SendMarkers,
)
from tidelog.core.transactions.settings import TransactionSettings
from tidelog.core.types import NEVER_MS, NO_PRODUCER

TOMBSTONES_PER_WRITE = 100
"""Names may be long, and a batch has to fit into the log."""

ENDED = "ended by its producer"
FENCED = "fenced by a new instance"
TIMED_OUT = "timed out"


class TransactionMachine:
    """Implements `core.coordination.CoordinatorMachine`."""

    __slots__ = (
        "_deadlines_ms",
        "_expiration_ms",
        "_next_timeout_ms",
        "_settings",
        "_unmarked",
        "coordinator_epoch",
        "transactions",
    )

    def __init__(self, settings: TransactionSettings, coordinator_epoch: int) -> None:
        assert coordinator_epoch >= 0, f"coordinator epoch {coordinator_epoch}"
        self._settings = settings
        self.coordinator_epoch = coordinator_epoch
        self.transactions: dict[str, TransactionValue] = {}
        # Of ongoing transactions; none of them is before `_next_timeout_ms`.
        self._deadlines_ms: dict[str, int] = {}
        self._next_timeout_ms = NEVER_MS
        self._expiration_ms = NEVER_MS
        # Of prepared transactions. In the order of the record: a dict is an ordered set here.
        self._unmarked: dict[str, dict[TopicPartition, None]] = {}

    # ---- the log ----

    def replay(self, records: Sequence[object], stamp: ProducerStamp | None) -> None:
        for record in records:
            assert isinstance(record, Transaction), f"{record} in a log of transactions"
            self._follow(record.transactional_id, record.value)

    def replay_marker(self, marker: Marker) -> None:
        """Transactions are decided in this log, none is written to it."""

    def _follow(self, transactional_id: str, value: TransactionValue | None) -> None:
        if value is None:
            self.transactions.pop(transactional_id, None)
        else:
            self.transactions[transactional_id] = value
        if value is None or not rules.is_ongoing(value):
            self._deadlines_ms.pop(transactional_id, None)
        self._unmarked.pop(transactional_id, None)
        if value is not None and rules.is_prepared(value):
            self._unmarked[transactional_id] = dict.fromkeys(value.partitions)

    def activate(self, now: Instant) -> Outcome:
        """Transactions that go on get their whole time again; decisions are carried out."""
        self._deadlines_ms.clear()
        self._next_timeout_ms = NEVER_MS
        self._expiration_ms = now.monotonic_ms + self._settings.expiration_check_interval_ms
        writes: list[Write] = []
        orders: list[object] = []
        for transactional_id, value in self.transactions.items():
            if rules.is_ongoing(value):
                self._start_timeout(transactional_id, value.timeout_ms, now)
            elif rules.is_prepared(value):
                if self._unmarked[transactional_id]:
                    orders.append(self._send_markers(transactional_id, value))
                else:
                    writes.append(
                        _write(transactional_id, transitions.completed(value, now.wall_ms))
                    )
        return Outcome(tuple(writes), orders=tuple(orders))

    def parked(self) -> list[object]:
        """Nobody waits in here: who comes too early is told to ask again."""
        return []

    # ---- requests ----

    def request(self, request: object, token: object, now: Instant) -> Outcome:
        match request:
            case InitProducer():
                return self._init_producer(request, token, now)
            case AddPartitions():
                return self._add_partitions(request, token, now)
            case EndTransaction():
                return self._end_transaction(request, token, now)
            case MarkersWritten():
                return self._markers_written(request, now)
            case DescribeTransaction():
                return self._describe(request, token)
            case ListTransactions():
                return self._list(token)
        raise AssertionError(f"a transaction coordinator is asked {request}")

    def needs_producer_id(self, transactional_id: str, *, ending: bool = False) -> bool:
        """Must an InitProducer, or an EndTransaction that raises the epoch (`ending`), bring a
        fresh producer id?"""
        value = self.transactions.get(transactional_id)
        if value is None:
            return not ending
        may_bump = not rules.is_prepared(value) if ending else rules.is_settled(value)
        return may_bump and rules.is_exhausted(value.producer_epoch)

    def _init_producer(self, request: InitProducer, token: object, now: Instant) -> Outcome:
        error = rules.check_init(request, self._settings)
        if error is not NO_ERROR:
            return _answer(token, ProducerIdentity(error))
        transactional_id = request.transactional_id
        value = self.transactions.get(transactional_id)
        if value is not None:
            if not rules.may_take_over(value, request):
                return _answer(token, ProducerIdentity(Error.PRODUCER_FENCED))
            if rules.is_ongoing(value):
                return self._fence(transactional_id, value, request, token, now)
            if rules.is_prepared(value):
                return _answer(token, ProducerIdentity(Error.CONCURRENT_TRANSACTIONS))
            if rules.is_repeated_init(value, request):
                return _answer(token, _identity(value))
        if self._lacks_producer_id(request, ending=False):
            return _answer(token, ProducerIdentity(Error.CONCURRENT_TRANSACTIONS))
        if value is None:
            successor = transitions.registered(request, now.wall_ms)
        else:
            successor = transitions.reidentified(value, request, now.wall_ms)
        return Outcome(
            (_write(transactional_id, successor),), (Answer(token, _identity(successor)),)
        )

    def _fence(
        self,
        transactional_id: str,
        value: TransactionValue,
        request: InitProducer,
        token: object,
        now: Instant,
    ) -> Outcome:
        """A new instance ends what the old one left; it is served when that has been done."""
        goes_on = request.producer_id != NO_PRODUCER
        prepared = transitions.fenced(value, goes_on=goes_on, wall_ms=now.wall_ms)
        answer = Answer(token, ProducerIdentity(Error.CONCURRENT_TRANSACTIONS))
        return self._prepare(transactional_id, prepared, FENCED, now)._replace(answers=(answer,))

    def _add_partitions(self, request: AddPartitions, token: object, now: Instant) -> Outcome:
        value = self.transactions.get(request.transactional_id)
        error = self._check_add(request, value)
        if error is not NO_ERROR:
            return _answer(token, AddPartitionsResponse(error))
        assert value is not None, f"{request} was accepted"
        known = frozenset(value.partitions)
        if request.verify_only:
            errors = [_verified(partition in known) for partition in request.partitions]
            return _answer(token, AddPartitionsResponse(NO_ERROR, tuple(errors)))
        added = Answer(
            token, AddPartitionsResponse(NO_ERROR, (NO_ERROR,) * len(request.partitions))
        )
        if known.issuperset(request.partitions):
            return Outcome(answers=(added,))
        extended = transitions.extended(value, request.partitions, request.version, now.wall_ms)
        writes = (_write(request.transactional_id, extended),)
        if rules.is_ongoing(value):
            return Outcome(writes, (added,))
        self._start_timeout(request.transactional_id, value.timeout_ms, now)
        began = TransactionBegan(
            request.transactional_id, request.producer_id, request.producer_epoch
        )
        return Outcome(writes, (added,), events=(began,))

    def _check_add(self, request: AddPartitions, value: TransactionValue | None) -> Error:
        if not request.transactional_id:
            return Error.INVALID_REQUEST
        error = rules.check_identity(value, request.producer_id, request.producer_epoch)
        if error is NO_ERROR and value is not None and rules.is_prepared(value):
            return Error.CONCURRENT_TRANSACTIONS
        return error

    def _end_transaction(self, request: EndTransaction, token: object, now: Instant) -> Outcome:
        transactional_id = request.transactional_id
        value = self.transactions.get(transactional_id)
        error = self._check_end(request, value)
        if error is not NO_ERROR:
            return _answer(token, ProducerIdentity(error))
        assert value is not None, f"{request} was accepted"
        verdict = rules.judge_end(value, request)
        if verdict is rules.Verdict.REPEATED:
            return _answer(token, _identity(value))
        if verdict is not rules.Verdict.DECIDE:
            return _answer(token, ProducerIdentity(rules.END_ERRORS[verdict]))
        if rules.bumps_epoch(request.version) and self._lacks_producer_id(request, ending=True):
            return _answer(token, ProducerIdentity(Error.CONCURRENT_TRANSACTIONS))
        prepared = transitions.decided(value, request, now.wall_ms)
        answer = Answer(token, _identity(prepared))
        return self._prepare(transactional_id, prepared, ENDED, now)._replace(answers=(answer,))

    def _check_end(self, request: EndTransaction, value: TransactionValue | None) -> Error:
        if not request.transactional_id:
            return Error.INVALID_REQUEST
        if value is not None and rules.is_repeated_end(value, request):
            return NO_ERROR
        return rules.check_identity(value, request.producer_id, request.producer_epoch)

    def _lacks_producer_id(self, request: InitProducer | EndTransaction, *, ending: bool) -> bool:
        """Between the question whether it needs one and the request, things have changed: then
        the producer asks again."""
        return request.fresh_producer_id == NO_PRODUCER and self.needs_producer_id(
            request.transactional_id, ending=ending
        )

    def _describe(self, request: DescribeTransaction, token: object) -> Outcome:
        if not request.transactional_id:
            return _answer(token, DescribedTransaction(Error.INVALID_REQUEST))
        value = self.transactions.get(request.transactional_id)
        error = Error.TRANSACTIONAL_ID_NOT_FOUND if value is None else NO_ERROR
        return _answer(token, DescribedTransaction(error, value))

    def _list(self, token: object) -> Outcome:
        listed = [
            ListedTransaction(transactional_id, value.producer_id, value.state, value.start_ms)
            for transactional_id, value in sorted(self.transactions.items())
        ]
        return _answer(token, ListTransactionsResponse(NO_ERROR, tuple(listed)))

    # ---- carrying out a decision ----

    def _prepare(
        self, transactional_id: str, prepared: TransactionValue, reason: str, now: Instant
    ) -> Outcome:
        """Write the decision. Markers may leave when it is committed, not before."""
        decision = _write(transactional_id, prepared)
        if not prepared.partitions:
            completed = transitions.completed(prepared, now.wall_ms)
            return Outcome((decision, _write(transactional_id, completed)))
        ended = TransactionEnded(
            transactional_id,
            prepared.producer_id,
            rules.is_commit(prepared),
            len(prepared.partitions),
            reason,
        )
        order = self._order(transactional_id, prepared)
        return Outcome((decision,), orders=(order,), events=(ended,))

    def _send_markers(self, transactional_id: str, value: TransactionValue) -> SendMarkers:
        """To those that are not known to have it."""
        unmarked = tuple(self._unmarked[transactional_id])
        return self._order(transactional_id, value._replace(partitions=unmarked))

    def _order(self, transactional_id: str, prepared: TransactionValue) -> SendMarkers:
        return SendMarkers(
            transactional_id,
            prepared.producer_id,
            prepared.producer_epoch,
            self.coordinator_epoch,
            rules.is_commit(prepared),
            prepared.version,
            prepared.partitions,
            prepared.last_update_ms,
        )

    def _markers_written(self, report: MarkersWritten, now: Instant) -> Outcome:
        value = self.transactions.get(report.transactional_id)
        if value is None or not rules.is_about(value, report):
            return NOTHING
        unmarked = self._unmarked[report.transactional_id]
        for partition in report.partitions:
            unmarked.pop(partition, None)
        if unmarked:
            return NOTHING
        completed = transitions.completed(value, now.wall_ms)
        return Outcome((_write(report.transactional_id, completed),))

    # ---- time ----

    def next_deadline_ms(self) -> int:
        return min(self._next_timeout_ms, self._expiration_ms)

    def on_time(self, now: Instant) -> Outcome:
        outcomes = [*self._time_out(now), self._expire(now)]
        return Outcome(
            tuple(write for outcome in outcomes for write in outcome.writes),
            orders=tuple(order for outcome in outcomes for order in outcome.orders),
            events=tuple(event for outcome in outcomes for event in outcome.events),
        )

    def _start_timeout(self, transactional_id: str, timeout_ms: int, now: Instant) -> None:
        deadline_ms = now.monotonic_ms + timeout_ms
        self._deadlines_ms[transactional_id] = deadline_ms
        self._next_timeout_ms = min(self._next_timeout_ms, deadline_ms)

    def _time_out(self, now: Instant) -> list[Outcome]:
        """Abort what has been going on for too long: it holds readers back (gotcha 27)."""
        if now.monotonic_ms < self._next_timeout_ms:
            return []
        late = [t for t, due_ms in self._deadlines_ms.items() if due_ms <= now.monotonic_ms]
        for transactional_id in late:
            del self._deadlines_ms[transactional_id]
        self._next_timeout_ms = min(self._deadlines_ms.values(), default=NEVER_MS)
        return [
            self._prepare(
                transactional_id,
                transitions.fenced(
                    self.transactions[transactional_id], goes_on=False, wall_ms=now.wall_ms
                ),
                TIMED_OUT,
                now,
            )
            for transactional_id in late
        ]

    def _expire(self, now: Instant) -> Outcome:
        """Forget transactional ids that nobody has used for long."""
        if now.monotonic_ms < self._expiration_ms:
            return NOTHING
        self._expiration_ms = now.monotonic_ms + self._settings.expiration_check_interval_ms
        tombstones = [
            Transaction(transactional_id, None)
            for transactional_id, value in self.transactions.items()
            if rules.is_expired(value, self._settings, now.wall_ms)
        ]
        return Outcome(
            tuple(
                Write(tuple(tombstones[first : first + TOMBSTONES_PER_WRITE]))
                for first in range(0, len(tombstones), TOMBSTONES_PER_WRITE)
            )
        )


def _write(transactional_id: str, value: TransactionValue | None) -> Write:
    return Write((Transaction(transactional_id, value),))


def _answer(token: object, response: object) -> Outcome:
    return Outcome(answers=(Answer(token, response),))


def _identity(value: TransactionValue) -> ProducerIdentity:
    return ProducerIdentity(NO_ERROR, *rules.identity(value))


def _verified(is_in: bool) -> Error:
    """KIP-890: a batch of a transaction nobody knows must not be appended."""
    return NO_ERROR if is_in else Error.TRANSACTION_ABORTABLE
