"""Checkpoint files: Kafka's text format for offsets per partition and for the epoch history.

    0                       version
    2                       entries
    orders 0 1500           topic partition offset, or: epoch start-offset
    orders 1 1498

A file that is not exactly this raises CorruptFile with the line; what to do then is decided
by who reads it, because the safe value differs: a missing recovery point means "scan all", a
missing high watermark means "the log start" (replication.md T31).
"""

from collections.abc import Iterable, Mapping

from tidelog.host.ports import Disk
from tidelog.storage import atomic_file
from tidelog.storage.atomic_file import read_file
from tidelog.storage.errors import CorruptFile

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEAN_POINTS = "cleaner-offset-checkpoint"
EPOCHS = "leader-epoch-checkpoint"

VERSION = "0"

PartitionName = tuple[str, int]
"""Topic and partition, as in the name of the partition's directory."""


def write_offsets(disk: Disk, path: str, offsets: Mapping[PartitionName, int]) -> None:
    lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
    atomic_file.replace_file(disk, path, render(lines))


def read_offsets(disk: Disk, path: str) -> dict[PartitionName, int]:
    """Empty if there is no such file: a directory that was just formatted has none."""
    offsets: dict[PartitionName, int] = {}
    for number, line in parse(disk, path):
        fields = line.split(" ")
        if len(fields) != 3 or not fields[0]:
            raise CorruptFile(path, f"line {number}", f"expected topic, partition, offset: {line}")
        name = (fields[0], natural(path, number, fields[1]))
        if name in offsets:
            raise CorruptFile(path, f"line {number}", f"{name[0]}-{name[1]} is there twice")
        offsets[name] = natural(path, number, fields[2])
    return offsets


def write_epochs(disk: Disk, path: str, entries: Iterable[tuple[int, int]]) -> None:
    atomic_file.replace_file(disk, path, render_epochs(entries))


def render_epochs(entries: Iterable[tuple[int, int]]) -> bytes:
    return render([f"{epoch} {start}" for epoch, start in entries])


def read_epochs(disk: Disk, path: str) -> list[tuple[int, int]]:
    """Empty if there is no such file: a log without records has no epochs."""
    entries: list[tuple[int, int]] = []
    for number, line in parse(disk, path):
        fields = line.split(" ")
        if len(fields) != 2:
            raise CorruptFile(path, f"line {number}", f"expected epoch and start offset: {line}")
        entry = (natural(path, number, fields[0]), natural(path, number, fields[1]))
        if entries and not (entry[0] > entries[-1][0] and entry[1] > entries[-1][1]):
            raise CorruptFile(path, f"line {number}", f"{entry} does not follow {entries[-1]}")
        entries.append(entry)
    return entries


def render(lines: list[str]) -> bytes:
    return "\n".join([VERSION, str(len(lines)), *lines, ""]).encode()


def parse(disk: Disk, path: str) -> list[tuple[int, str]]:
    """The entries with their line numbers. An empty or absent file has none."""
    content = read_file(disk, path)
    if not content:
        return []
    try:
        lines = content.decode("ascii").split("\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise CorruptFile(path, f"line {line}", "not text") from error
    if lines[0] != VERSION:
        raise CorruptFile(path, "line 1", f"version {lines[0]!r}, only {VERSION} is known")
    if lines[-1] != "" or len(lines) < 3:
        raise CorruptFile(path, f"line {len(lines)}", "the file ends in the middle of a line")
    count = natural(path, 2, lines[1])
    entries = [(number, line) for number, line in enumerate(lines[2:-1], 3)]
    if count != len(entries):
        raise CorruptFile(path, "line 2", f"{count} entries promised, {len(entries)} are there")
    return entries


def natural(path: str, number: int, text: str) -> int:
    """Digits only: `int` would also take signs, spaces and underscores."""
    if not (text.isascii() and text.isdigit()) or len(text) > 19:
        raise CorruptFile(path, f"line {number}", f"{text!r} is not a number")
    return int(text)
