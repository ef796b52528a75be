"""A simulated node at byte depth: its storage can fail, and then the process ends itself.

Whatever the node does begins with a message or a timer. That is the border at which an error
of the storage arrives: nothing half done is continued, and what was decided is what is on disk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tidelog.sim.byte_disk import ByteNodeDisk
from tidelog.sim.node import SimNode
from tidelog.sim.rules.recovery_rules import RECOVERY
from tidelog.storage.errors import CorruptSegment, DirectoryOffline, NoSpace, StorageError

Argument = TypeVar("Argument")
FAILURES = (CorruptSegment, DirectoryOffline, NoSpace)
"""What a disk may do to us. Any other error of the storage is our bug."""


class ByteNode(SimNode):
    disk: ByteNodeDisk

    def start(self) -> bool:
        try:
            return super().start()
        except FAILURES as error:
            assert not self.running, f"node {self.id} failed after it had started"
            self._check_explained(error)
            self.world.disturbances.start_refused(self, error)
            return False

    def receive(self, source: int, message: object) -> None:
        try:
            super().receive(source, message)
        except FAILURES as error:
            self._fail(error)

    def at_ms(self, at_ms: int, callback: Callable[[Argument], None], argument: Argument) -> None:
        super().at_ms(at_ms, self._run, (callback, argument))

    def after_ms(
        self, delay_ms: int, callback: Callable[[Argument], None], argument: Argument
    ) -> None:
        super().after_ms(delay_ms, self._run, (callback, argument))

    def after_us(
        self, delay_us: int, callback: Callable[[Argument], None], argument: Argument
    ) -> None:
        super().after_us(delay_us, self._run, (callback, argument))

    def begin_clean_stop(self) -> None:
        try:
            super().begin_clean_stop()
        except FAILURES as error:
            self._fail(error)

    def complaints(self) -> list[str]:
        return self.disk.complaints() if self.running else []

    def _run(self, call: tuple[Callable[[Any], None], Any]) -> None:
        callback, argument = call
        try:
            callback(argument)
        except FAILURES as error:
            self._fail(error)

    def _fail(self, error: StorageError) -> None:
        assert self.running, f"node {self.id} failed when it was down: {error}"
        self._check_explained(error)
        self.world.disturbances.storage_failed(self, error)

    def _check_explained(self, error: StorageError) -> None:
        """Only a fault of the plan may make the storage fail."""
        disk = self.disk
        if isinstance(error, CorruptSegment):
            explained = disk.condemn(error)
            self.marks.add("corrupt_batch_found")
        elif isinstance(error, NoSpace):
            explained = disk.full
            self.marks.add("stopped_by_full_disk")
        else:
            explained = disk.sync_fails
            self.marks.add("sync_failed")
        if not explained:
            self.world.report(RECOVERY, f"node {self.id} has a sound disk: {error}")
