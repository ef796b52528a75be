"""One query from its start to its end: told batch by batch, stopped without loss."""

import json
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple

from tidelog.spark.failure import TidelogError, words_of
from tidelog.spark.pipelines.batches import Batch, batch_of, was_run
from tidelog.spark.pipelines.events import BATCH
from tidelog.spark.pipelines.state import FAILED, FINISHED, STOPPED, PipelineState

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

POLL_SECONDS = 0.2


class Pace(NamedTuple):
    """When batches begin: all that is there now and then no more, or again and again."""

    once: bool
    every_ms: int = 1000


class Run(NamedTuple):
    batches: int
    rows_in: int
    interrupted: bool


Tell = Callable[[Batch], None]


def nothing() -> None:
    """For who has nothing to do between batches."""


def paced(writer: "DataStreamWriter", pace: Pace) -> "DataStreamWriter":
    if pace.once:
        return writer.trigger(availableNow=True)
    return writer.trigger(processingTime=f"{pace.every_ms} milliseconds")


def follow(
    query: "StreamingQuery",
    state: PipelineState,
    tell: Tell,
    between: Callable[[], None] = nothing,
) -> Run:
    """Until the query ends or somebody asks for an end; TidelogError if it fails. `between` is
    called a few times a second."""
    from pyspark.errors import StreamingQueryException  # noqa: PLC0415 - pyspark is an extra

    told, rows = -1, 0

    def tell_new() -> None:
        nonlocal told, rows
        for progress in query.recentProgress:
            document = json.loads(progress.json)
            if not was_run(document):
                continue
            batch = batch_of(document)
            if batch.number > told:
                told, rows = batch.number, rows + batch.rows_in
                state.note(**batch.as_document())
                state.events.add(BATCH, {"name": state.name, **batch.as_document()})
                if batch.bad is not None:
                    state.count(f"{batch.bad[0]}_total", batch.bad[1])
                tell(batch)

    first = state.committed_batch()
    with asked_to_stop() as asked:
        try:
            while not asked.is_set() and not _has_ended(query):
                tell_new()
                between()
            if query.isActive:
                query.stop()
        except StreamingQueryException as error:
            tell_new()
            raise failed(error) from None
        except BaseException:
            query.stop()
            raise
    tell_new()
    last = state.committed_batch()
    state.turned(STOPPED if asked.is_set() else FINISHED)
    done = 0 if last is None else last - (-1 if first is None else first)
    return Run(done, rows, asked.is_set())


def _has_ended(query: "StreamingQuery") -> bool:
    """Waits a little; raises what the query ended with. The type says whole seconds, Spark takes
    milliseconds."""
    return bool(query.awaitTermination(POLL_SECONDS))  # type: ignore[arg-type]


@contextmanager
def noting_failure(state: PipelineState) -> Iterator[None]:
    """Whatever ends a pipeline early is kept beside its checkpoint."""
    try:
        yield
    except Exception as error:
        failure = failed(error)
        state.count("failures", 1)
        state.turned(FAILED, error=f"{failure.what}; {failure.advice}")
        raise
    except BaseException:
        state.turned(STOPPED)
        raise


def failed(error: BaseException) -> TidelogError:
    """Our own words if there are any, else the first line of Spark's."""
    if isinstance(error, TidelogError):
        return error
    words = words_of(error)
    if words is not None:
        what, _, advice = words.rpartition("; ")
        return TidelogError(what or words, advice)
    lines = [each.strip() for each in str(error).splitlines() if each.strip()]
    return TidelogError(f"Spark says: {lines[0] if lines else type(error).__name__}", "see its log")


@contextmanager
def asked_to_stop() -> Iterator[threading.Event]:
    """Set by Ctrl-C and SIGTERM. Spark's own handler cancels jobs first, which would make the
    batch fail; this lets the query be stopped in order."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def note(number: int, frame: FrameType | None) -> None:
        asked.set()

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
