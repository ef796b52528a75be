"""Where new logs go, and who hears of a disk without space."""

from pathlib import Path

from tidelog.broker.logs.directories import Directories
from tidelog.host.disk import FileDisk
from tidelog.host.workers import ThreadWorkers
from tidelog.storage.config import LogConfig
from tidelog.storage.errors import NoSpace
from tidelog.storage.log_directory import LogDirectory
from tidelog.storage.meta_properties import MetaProperties, format_directory


def directory(path: Path, number: int) -> LogDirectory:
    path.mkdir()
    disk = FileDisk(path)
    format_directory(disk, MetaProperties("c", 1, bytes([number]) * 16))
    return LogDirectory.open(disk, lambda _: LogConfig(), cluster_id="c", node_id=1)


def test_new_logs_go_where_there_is_room_and_then_where_there_are_few(tmp_path: Path) -> None:
    first, second = directory(tmp_path / "a", 1), directory(tmp_path / "b", 2)
    directories = Directories([first, second], ThreadWorkers)
    directories.has_room = lambda each: each is not first
    assert directories.emptiest() is second
    directories.create_logs({("orders", n): b"o" * 16 for n in range(4)})
    assert (len(first.logs), len(second.logs)) == (0, 4)
    directories.has_room = lambda _: True
    assert directories.emptiest() is first


def test_a_write_without_space_is_told_to_who_watches_the_disks(tmp_path: Path) -> None:
    only = directory(tmp_path / "a", 1)
    directories = Directories([only], ThreadWorkers)
    heard: list[LogDirectory] = []
    directories.on_no_space = heard.append
    directories.on_error(only, NoSpace("orders-0/00000000000000000000.log"))
    assert heard == [only]
