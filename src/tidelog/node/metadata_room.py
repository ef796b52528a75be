"""Reports that the disk of the metadata log is nearly full, where that is no log directory.

A log directory without room hands its replicas over (`broker.logs.disk_rooms`). The metadata log
has nobody to hand over to: a node that cannot write it stops. So the disk is looked at before.
"""

import asyncio
from functools import partial

from tidelog.broker.logs.disk_rooms import KIND, RoomView, is_short
from tidelog.config.node_config import NodeConfig
from tidelog.host import tasks
from tidelog.host.disk_space import default_reserve_bytes
from tidelog.host.node_host import NodeHost
from tidelog.host.ports import DiskSpace
from tidelog.host.timers import Timer

LOOK_EVERY_MS = 5_000
ADVICE = "free or add space on this disk: a node that cannot write its metadata log stops"


class MetadataRoom:
    """Looks now and then, beside the loop, how much is free around `metadata.log.dir`."""

    __slots__ = (
        "_host",
        "_is_full",
        "_looking",
        "_path",
        "_reserve_bytes",
        "_space",
        "_timer",
        "_worker",
    )

    def __init__(self, config: NodeConfig, host: NodeHost) -> None:
        self._host = host
        self._path = config.metadata_log_dir
        self._reserve_bytes = config.logs.disk_reserve_bytes
        self._worker = host.make_workers("disk-room", 1)
        self._timer: Timer | None = None
        self._looking: asyncio.Task[None] | None = None
        self._space: DiskSpace | None = None
        self._is_full = False

    def start(self) -> None:
        self._looking = tasks.begin(self._look())

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._looking is not None:
            self._looking.cancel()
        self._worker.close(wait=False)

    def view(self) -> RoomView:
        return RoomView(self._path, self._space, self._is_full)

    async def _look(self) -> None:
        self._space = await self._worker.run(partial(self._host.disk_space, self._path))
        self._timer = self._host.timers.after(LOOK_EVERY_MS, self.start)
        self._judge()

    def _judge(self) -> None:
        space, findings = self._space, self._host.findings
        reserve_bytes = self._reserve_bytes
        if space is not None and reserve_bytes < 0:
            reserve_bytes = default_reserve_bytes(space.total_bytes)
        self._is_full = is_short(space, reserve_bytes, was_full=self._is_full)
        if space is None or not self._is_full:
            findings.clear(KIND, self._path)
            return
        text = (
            f"the disk of {self._path} has {space.usable_bytes:,} of {space.total_bytes:,} bytes"
            f" free, fewer than the {reserve_bytes:,} of the reserve: this node stops when its"
            " metadata log cannot grow"
        )
        findings.report(KIND, self._path, text, advice=ADVICE)
