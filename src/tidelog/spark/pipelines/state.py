"""What is kept of a pipeline beside its checkpoint, so that it can be told of and gone on with.

`pipeline.json` says what it is and who runs it, `progress.json` how far it is, `events.jsonl` what
happened to it. A lock that the running process holds, and that ends with it however it ends, says
whether it runs.
"""

import fcntl
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tidelog.spark.failure import TidelogError
from tidelog.spark.pipelines.checkpoint import (
    Checkpoint,
    DirectoryCheckpoint,
    StoredCheckpoint,
)
from tidelog.spark.pipelines.events import STARTED, EventLog
from tidelog.spark.ranges import Offsets, from_document
from tidelog.spark.tables.store_options import store_options
from tidelog.spark.tables.stores import Store, scheme_of

HOME = Path(".tidelog") / "pipelines"

PIPELINE_FILE = "pipeline.json"
PROGRESS_FILE = "progress.json"
LOCK_FILE = "lock"
CHECKPOINT = "checkpoint"
SPARK_LOG = "spark.log"

RUNNING, FINISHED, STOPPED, FAILED = "running", "finished", "stopped", "failed"
NO_OPTION = {
    "cluster_id": "the id of the cluster",
    "from_cluster_id": "the id of the cluster of --from",
    "to_cluster_id": "the id of the cluster of --to",
    "topics": "TOPIC…",
}
"""What people call arguments that are no options."""

Document = dict[str, Any]


class PipelineState:
    """`with PipelineState(home / "archive-orders") as state: …`, while the pipeline runs."""

    __slots__ = ("_lock", "_progress", "checkpoint", "directory", "events")

    def __init__(self, directory: Path, checkpoint: Checkpoint | None = None) -> None:
        """The checkpoint is in the directory, if nothing else is said."""
        self.directory = directory
        self.checkpoint = checkpoint or DirectoryCheckpoint(directory / CHECKPOINT)
        self.events = EventLog(directory)
        self._lock: int | None = None
        self._progress: Document = {}

    @property
    def name(self) -> str:
        return self.directory.name

    @property
    def spark_log(self) -> Path:
        return self.directory / SPARK_LOG

    def __enter__(self) -> Self:
        self.directory.mkdir(parents=True, exist_ok=True)
        lock = os.open(self.directory / LOCK_FILE, os.O_CREAT | os.O_RDWR)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            pid = _read(self.directory / PIPELINE_FILE).get("pid", "?")
            raise TidelogError(
                f"the pipeline {self.name} runs already, as process {pid}",
                "stop that one first, or give another --name",
            ) from None
        self._lock = lock
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._lock is not None, f"{self.name} was never entered"
        os.close(self._lock)
        self._lock = None

    def check(self, kind: str, arguments: Mapping[str, Any]) -> None:
        """TidelogError if the checkpoint belongs to something else: what differs, old → new."""
        known = self.checkpoint.words() or _read(self.directory / PIPELINE_FILE)
        given = _as_kept(arguments)
        if not known or not self.has_begun():
            return
        if (known["kind"], known["arguments"]) != (kind, given):
            raise TidelogError(
                f"the checkpoint of {self.name} belongs to {_told(known, given, kind)}",
                "start it as it was to go on with it; for the new one give another --name, or "
                f"remove {self.checkpoint.shown} to begin anew",
            )

    def begin(self, kind: str, arguments: Mapping[str, Any], *, spark: str, **told: Any) -> None:
        """Say what runs; `told` is kept too. TidelogError if the checkpoint is another's."""
        self.check(kind, arguments)
        kept = _as_kept(arguments)
        self.checkpoint.keep({"name": self.name, "kind": kind, "arguments": kept})
        self._write(
            PIPELINE_FILE,
            {
                "name": self.name,
                "kind": kind,
                "arguments": kept,
                "checkpoint": self.checkpoint.shown,
                "spark": spark,
                "started_ms": _now_ms(),
                "pid": os.getpid(),
                **told,
            },
        )
        self._progress = _read(self.directory / PROGRESS_FILE)
        self._progress.pop("error", None)
        ran_before = bool(self._progress)
        self.note(state=RUNNING, restarts=self.known("restarts") + ran_before)
        self.events.add(STARTED, {"name": self.name, "kind": kind, "spark": spark, **told})

    def runs_on(self, spark: str) -> None:
        """Which Spark it really is: `spark-submit` may have said so, and not our options."""
        self._write(PIPELINE_FILE, {**_read(self.directory / PIPELINE_FILE), "spark": spark})

    def known(self, field: str) -> int:
        """A number that goes on over restarts."""
        return int(self._progress.get(field, 0))

    def turned(self, state: str, **fields: Any) -> None:
        """It is over, for now: kept as its state, and as an event."""
        self.note(state=state, **fields)
        self.events.add(state, {"name": self.name, **fields})

    def has_begun(self) -> bool:
        """Whether the checkpoint knows of a batch that was planned."""
        return self.checkpoint.newest("offsets") is not None

    def committed_batch(self) -> int | None:
        """The last batch that the checkpoint calls done."""
        return self.checkpoint.newest("commits")

    def committed_offsets(self) -> Offsets:
        """Where the last batch that is done has ended; empty if there is none, or if they are not
        of topics."""
        last = self.committed_batch()
        if last is None:
            return {}
        try:
            lines = self.checkpoint.read("offsets", last).splitlines()
            return from_document(json.loads(lines[-1]))
        except (OSError, IndexError, ValueError, AttributeError, TypeError):
            return {}

    def note(self, **fields: Any) -> None:
        """Of how far it is: these fields are new, others stay."""
        self._progress.update(fields, at_ms=_now_ms())
        self._write(PROGRESS_FILE, self._progress)

    def count(self, field: str, more: int) -> None:
        """Add to a number that goes on over restarts."""
        self.note(**{field: self._progress.get(field, 0) + more})

    def _write(self, name: str, document: Document) -> None:
        temporary = self.directory / f"{name}.new"
        temporary.write_text(json.dumps(document, indent=2, ensure_ascii=False), "utf-8")
        temporary.replace(self.directory / name)


def known_state(directory: Path) -> PipelineState:
    """Of a pipeline that has run here, with its checkpoint wherever that is. The environment says
    how to get into a store."""
    place = _read(directory / PIPELINE_FILE).get("checkpoint", "")
    if "://" not in place:
        return PipelineState(directory)
    store = Store(place, store_options(scheme_of(place), {}))
    return PipelineState(directory, StoredCheckpoint(store))


def known_pipelines(home: Path = HOME) -> list[Document]:
    """Those that ran here, in the order of their names; each with state and progress."""
    return [described(path.parent) for path in sorted(home.glob(f"*/{PIPELINE_FILE}"))]


def described(directory: Path) -> Document:
    """`pipeline.json` and `progress.json` together, and whether it really runs."""
    document = _read(directory / PIPELINE_FILE)
    progress = _read(directory / PROGRESS_FILE)
    state = progress.pop("state", STOPPED)
    if _is_held(directory / LOCK_FILE):
        state = RUNNING
    elif state == RUNNING:
        state = FAILED
        progress["error"] = "its process is gone"
    if state != RUNNING and "metrics" in document:
        document["metrics"] = None  # nobody answers there any more
    return {**document, "name": directory.name, "state": state, "progress": progress}


def _is_held(path: Path) -> bool:
    try:
        lock = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _read(path: Path) -> Document:
    """Empty if there is none, or if it is not what we wrote."""
    try:
        document = json.loads(path.read_text("utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def _as_kept(arguments: Mapping[str, Any]) -> Document:
    kept: Document = json.loads(json.dumps(dict(arguments)))
    return kept


def _told(known: Document, given: Document, kind: str) -> str:
    if known["kind"] != kind:
        return f"a pipeline of another kind: {known['kind']} → {kind}"
    before = known["arguments"]
    names = [name for name in {**before, **given} if before.get(name) != given.get(name)]
    differing = [
        f"{NO_OPTION.get(name, '--' + name.replace('_', '-'))} "
        f"{_value(before.get(name))} → {_value(given.get(name))}"
        for name in names
    ]
    return f"other arguments: {', '.join(differing)}"


def _value(value: Any) -> str:
    if value is None or value == "":
        return "none"
    return ",".join(map(str, value)) or "none" if isinstance(value, list) else str(value)


def _now_ms() -> int:
    return int(time.time() * 1000)
