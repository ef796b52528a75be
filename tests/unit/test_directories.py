"""An operator hears of a full disk, once a minute, however many appends it refuses."""

import logging
from pathlib import Path

import pytest

from tidelog.broker.directories import TOLD_AGAIN_AFTER_MS, Directories
from tidelog.host.disk import FileDisk
from tidelog.host.workers import ThreadWorkers
from tidelog.storage.config import LogConfig
from tidelog.storage.errors import NoSpace
from tidelog.storage.log_directory import LogDirectory
from tidelog.storage.meta_properties import MetaProperties, format_directory


def test_a_full_directory_is_told_of_once_a_minute(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = FileDisk(tmp_path)
    format_directory(disk, MetaProperties("c", 1, b"\x01" * 16))
    directory = LogDirectory.open(disk, lambda _: LogConfig(), cluster_id="c", node_id=1)
    directories = Directories([directory], ThreadWorkers)
    error = NoSpace("orders-0/00000000000000000000.log")
    with caplog.at_level(logging.WARNING, "tidelog.broker"):
        for now_ms in (0, 1, TOLD_AGAIN_AFTER_MS - 1, TOLD_AGAIN_AFTER_MS):
            directories.on_error(directory, error, now_ms)
    assert [record.getMessage() for record in caplog.records] == 2 * [
        "no space left on the device while writing orders-0/00000000000000000000.log:"
        " appends are refused until there is some, reads go on"
    ]
