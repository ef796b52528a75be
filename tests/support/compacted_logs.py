"""A log directory with compacted logs, and a clock that a test moves."""

from support.batches import marker
from tidelog.sim.disk import SimDisk
from tidelog.sim.log_check import log_faults
from tidelog.storage import LogConfig, LogDirectory
from tidelog.storage.compaction import CompactionProgress
from tidelog.storage.log import Log
from tidelog.storage.meta_properties import MetaProperties, format_directory
from tidelog.wire.records import Record, encode, iter_batches, iter_records

END = 1 << 62
NAME = ("t", 0)


class Bench:
    """A directory with compacted logs, and a clock."""

    def __init__(self, **settings: object) -> None:
        self.config = LogConfig(
            cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.0, file_delete_delay_ms=0
        )
        for name, value in settings.items():
            setattr(self.config, name, value)
        self.disk = SimDisk()
        self.now_ms = 1_000_000
        format_directory(self.disk, MetaProperties("c", 1, b"directory id ..."))
        self.open()
        self.compact_once()  # the clock begins here
        self.directory.create_log(NAME, b"topic id .......")

    def open(self) -> None:
        self.directory = LogDirectory.open(
            self.disk, lambda topic: self.config, cluster_id="c", node_id=1
        )

    @property
    def log(self) -> Log:
        return self.directory.logs[NAME]

    def put(self, *rows: tuple[bytes | None, bytes | None], log: Log | None = None, **how: int):
        """One batch; `producer` writes it in a transaction."""
        producer = how.get("producer", -1)
        data = encode(
            [Record(n, self.now_ms, key, value) for n, (key, value) in enumerate(rows)],
            codec=how.get("codec", 0),
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            base_sequence=how.get("sequence", 0) if producer >= 0 else -1,
            transactional=producer >= 0,
        )
        (log or self.log).append_as_leader(data, 0)

    def end(self, producer: int, *, commit: bool) -> None:
        self.log.append_as_leader(marker(producer, commit=commit, time_ms=self.now_ms), 0)

    def compact_once(self, **how: int) -> CompactionProgress | None:
        self.directory.sync_dirty()  # what is not synced supersedes nothing
        return self.directory.compact_once(
            wall_ms=self.now_ms,
            monotonic_ms=self.now_ms,
            high_watermarks={n: log.log_end_offset for n, log in self.directory.logs.items()},
            **how,
        )

    def compact(self) -> None:
        """Roll, so that everything may be cleaned, and clean."""
        self.log.roll()
        while self.compact_once() is not None:
            pass
        assert log_faults(self.disk, self.log, leftovers=True) == []

    def records(self) -> list[tuple[int, bytes | None, bytes | None]]:
        found = []
        position = self.log.log_start_offset
        while runs := self.log.read(position, END, 1 << 20):
            for at, header in iter_batches(runs[0]):
                position = header.next_offset
                if not header.is_control:
                    found += [(r.offset, r.key, r.value) for r in iter_records(runs[0], at, header)]
        return found

    def markers(self) -> int:
        runs = self.log.read(0, END, 1 << 20)
        return sum(h.is_control and h.record_count for _, h in iter_batches(runs[0]))
