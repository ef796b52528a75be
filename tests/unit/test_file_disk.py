"""The real disk, and that the virtual one behaves like it."""

import errno
import os
import socket
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.killing_disk import KillingDisk, killed
from support.page_cache import evict, require_a_system_that_tells
from tidelog.host.disk import FileDisk
from tidelog.host.ports import Disk
from tidelog.sim.disk import SimDisk


def test_what_is_written_is_in_the_file(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path)
    disk.make_dir("logs/t-0")
    file = disk.open("logs/t-0/a", create=True)
    file.write(0, [b"he", bytearray(b"ll"), memoryview(b"o")])
    file.write(7, b"!")
    file.sync()
    assert file.size() == 8
    assert file.read(3, 100) == b"lo\0\0!"
    file.truncate(5)
    file.close()
    file.close()
    disk.sync_dir("logs/t-0")
    assert (tmp_path / "logs/t-0/a").read_bytes() == b"hello"
    disk.rename("logs/t-0/a", "logs/t-0/b")
    assert disk.list("logs/t-0") == ["b"]
    disk.remove("logs/t-0/b")
    disk.remove("logs/t-0")
    assert not disk.exists("logs/t-0")


def test_more_buffers_than_one_call_takes_are_all_written(tmp_path: Path) -> None:
    file = FileDisk(tmp_path).open("a", create=True)
    parts = [str(number).encode() for number in range(3000)]
    file.write(10, [*parts, b""])
    file.write(0, [])
    assert file.read(10, 1 << 20) == b"".join(parts)
    file.close()


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwritev
    monkeypatch.setattr(os, "pwritev", lambda fd, parts, at: real(fd, [parts[0][:3]], at))
    file = FileDisk(tmp_path).open("a", create=True)
    file.write(2, [b"hello", b"", b"world"])
    assert file.read(0, 99) == b"\0\0helloworld"
    one = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: one(fd, data[:3], at))
    file.write(7, b"people")
    assert file.read(0, 99) == b"\0\0hellopeople"
    file.close()


def test_short_reads_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = FileDisk(tmp_path).open("a", create=True)
    file.write(0, b"helloworld")
    real = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, at: real(fd, min(size, 3), at))
    assert file.read(1, 7) == b"ellowor"
    assert file.read(5, 99) == b"world"
    file.close()


@pytest.mark.parametrize(
    "call", ["fstat", "pread", "pwrite", "pwritev", "ftruncate", "fdatasync", "fsync"]
)
def test_every_error_names_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def broken(*args: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    disk = FileDisk(tmp_path)
    disk.make_dir("d")
    file = disk.open("d/a", create=True)
    operations = {
        "fstat": file.size,
        "pread": lambda: file.read(0, 1),
        "pwrite": lambda: file.write(0, b"x"),
        "pwritev": lambda: file.write(0, [b"x", b"y"]),
        "ftruncate": lambda: file.truncate(0),
        "fdatasync": file.sync,
        "fsync": lambda: disk.sync_dir("d"),
    }
    with monkeypatch.context() as patch:
        patch.setattr(os, call, broken)
        with pytest.raises(OSError, match="Input/output error") as caught:
            operations[call]()
    assert caught.value.errno == errno.EIO
    assert caught.value.filename.startswith(str(tmp_path / "d"))
    file.close()
    with pytest.raises(OSError, match=str(tmp_path / "d/a")) as caught:
        file.size()
    assert caught.value.errno == errno.EBADF


def test_a_root_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotADirectoryError, match="nowhere"):
        FileDisk(tmp_path / "nowhere")


def test_paths_cannot_leave_the_root(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path)
    for path in ("../x", "a/../../x", "/etc/passwd"):
        with pytest.raises(AssertionError):
            disk.exists(path)


paths = st.sampled_from(["a", "b", "d", "d/a", "d/e", "d/e/b", "f"])
operations = st.lists(
    st.tuples(
        st.sampled_from(
            ["open", "create", "write", "truncate", "make_dir", "rename", "remove", "list",
             "exists", "sync_dir"]
        ),
        paths,
        paths,
        st.integers(0, 20),
        st.binary(max_size=12),
    ),
    max_size=30,
)  # fmt: skip


def outcome(disk: Disk, operation: tuple[str, str, str, int, bytes]) -> object:
    """What the caller gets: an answer or the number of an error."""
    kind, path, other, number, data = operation
    try:
        if kind in ("make_dir", "remove", "list", "exists", "sync_dir"):
            return getattr(disk, kind)(path)
        if kind == "rename":
            return disk.rename(path, other)
        file = disk.open(path, create=kind in ("create", "write"))
        if kind == "write":
            file.write(number, data)
        elif kind == "truncate":
            file.truncate(number)
        answer = (file.size(), file.read(0, 100), file.read(number, 5))
        file.close()
        return answer
    except OSError as error:
        return error.errno


@settings(
    deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(history=operations)
def test_the_virtual_disk_answers_like_the_real_one(
    history, tmp_path_factory: pytest.TempPathFactory
) -> None:
    real, virtual = FileDisk(tmp_path_factory.mktemp("disk")), SimDisk()
    for operation in history:
        assert outcome(virtual, operation) == outcome(real, operation), operation


def replace(disk: KillingDisk) -> None:
    file = disk.open("tmp", create=True)
    file.write(0, b"new")
    file.sync()
    file.close()
    disk.rename("tmp", "final")
    disk.sync_dir("")


def test_a_process_can_be_killed_in_front_of_every_change(tmp_path: Path) -> None:
    found = []
    for kill_at in range(6):
        root = tmp_path / str(kill_at)
        root.mkdir()
        (root / "final").write_bytes(b"old")
        was_killed = killed(replace, FileDisk(root), kill_at)
        files = {path.name: path.read_bytes() for path in root.iterdir()}
        found.append((was_killed, files))
    assert found == [
        (True, {"final": b"old"}),
        (True, {"final": b"old", "tmp": b""}),
        (True, {"final": b"old", "tmp": b"new"}),
        (True, {"final": b"old", "tmp": b"new"}),
        (True, {"final": b"new"}),
        (False, {"final": b"new"}),
    ]


def test_what_is_in_memory_can_be_sent_and_what_is_not_has_to_be_read(tmp_path: Path) -> None:
    require_a_system_that_tells(tmp_path)
    file = FileDisk(tmp_path).open("a", create=True)
    content = os.urandom(1 << 20)
    for position in range(0, 1 << 20, 1 << 16):  # what is written at once may leave only at once
        file.write(position, content[position : position + (1 << 16)])
    found = file.range_in_memory(1000, 600_000)
    assert found is not None
    assert (len(found), found.read()) == (600_000, content[1000:601_000])
    assert found.read(550_000) == content[551_000:601_000]
    evict(tmp_path / "a", 1 << 19)
    assert file.range_in_memory(1000, 600_000) is None, "its end is not there"
    assert file.range_in_memory(1000, 200_000) is not None
    assert file.range_in_memory(1 << 19, 100_000) is None
    assert file.range_in_memory(1 << 20, 1) is None, "behind the end"
    file.read_ahead(allowed=False)
    file.read(1 << 19, 100)
    assert file.range_in_memory(1 << 19, 4096) is not None, "asked for"
    assert file.range_in_memory(1 << 19, 8192) is None, "not asked for"
    file.read_ahead(allowed=True)
    assert file.read(1 << 19, 1 << 20) == content[1 << 19 :]
    assert file.range_in_memory(0, 1 << 20) is not None
    file.close()
    assert file.range_in_memory(0, 100) is None


def test_a_range_of_a_file_that_became_shorter_is_an_error_and_says_where(tmp_path: Path) -> None:
    require_a_system_that_tells(tmp_path)
    file = FileDisk(tmp_path).open("a", create=True)
    file.write(0, bytes(100_000))
    found = file.range_in_memory(0, 100_000)
    assert found is not None
    file.truncate(60_000)
    with pytest.raises(OSError, match="ends 40000 bytes early") as caught:
        found.read()
    assert caught.value.filename == str(tmp_path / "a")
    file.close()


def test_a_socket_takes_of_a_range_what_it_can_without_waiting(tmp_path: Path) -> None:
    require_a_system_that_tells(tmp_path)
    file = FileDisk(tmp_path).open("a", create=True)
    content = os.urandom(32 << 20)
    file.write(0, content)
    found = file.range_in_memory(0, len(content))
    assert found is not None
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        sent = found.send(ours.fileno())
        assert 0 < sent < len(content), "nobody reads"
        assert found.send(ours.fileno()) == 0
        ours.close()
        received = bytearray()
        while piece := theirs.recv(1 << 20):
            received += piece
    assert received == content[:sent]
    file.close()
