"""All ports of a node, together."""

from collections.abc import Callable

from tidelog.core.events import Event
from tidelog.host.bearer_tokens import Fetch, fetched
from tidelog.host.filesystem import SystemFilesystem
from tidelog.host.findings import Findings
from tidelog.host.ports import Clock, DiskSpace, Entropy, Filesystem, MakeWorkers, Network
from tidelog.host.timers import TimerWheel
from tidelog.host.work import Work
from tidelog.host.workers import ThreadWorkers

SYSTEM_FILESYSTEM = SystemFilesystem()


def unknown_space(_path: str) -> DiskSpace | None:
    """For hosts whose disks have no size."""
    return None


class NodeHost:
    """Made once per node and handed to every part of it."""

    __slots__ = (
        "clock",
        "disk_space",
        "emit",
        "entropy",
        "fetch",
        "filesystem",
        "findings",
        "make_workers",
        "network",
        "timers",
        "to_brokers",
        "to_controllers",
        "work",
    )

    def __init__(
        self,
        clock: Clock,
        timers: TimerWheel,
        network: Network,
        entropy: Entropy,
        emit: Callable[[Event], None],
        *,
        disk_space: Callable[[str], DiskSpace | None] = unknown_space,
        filesystem: Filesystem = SYSTEM_FILESYSTEM,
        make_workers: MakeWorkers = ThreadWorkers,
        fetch: Fetch = fetched,
    ) -> None:
        self.clock = clock
        self.timers = timers
        self.network = network
        self.to_brokers = network
        """The way to other brokers, with what they want of a connection: TLS, a login."""
        self.to_controllers = network
        """The same to controllers. Whoever only knocks uses `network`."""
        self.entropy = entropy
        self.emit = emit
        """The one way out for everything that happens: logs, metrics and traces render it."""
        self.disk_space = disk_space
        """How much room there is around a path; None if nobody can tell."""
        self.filesystem = filesystem
        self.make_workers = make_workers
        self.fetch = fetch
        """What is at an address of a file or a web server. Waits: for threads only."""
        self.findings = Findings(emit, clock.wall_ms)
        """What is wrong on this node right now."""
        self.work = Work()
        """What the event loop of this node is doing right now."""

    def now_ms(self) -> int:
        return self.clock.monotonic_ms()
