"""The first commands somebody types: a cluster elsewhere, records for a topic, and the end."""

import contextlib
import os
import pty
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

GUARD_S = 60
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def words(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "tidelog", *map(str, arguments)]


def tidelog(directory: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Nobody is there to be asked."""
    return subprocess.run(
        words(*arguments),
        cwd=directory,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=GUARD_S,
        check=False,
    )


def typed(directory: Path, answer: str, *arguments: object) -> tuple[int, str]:
    """The same at a terminal, where one question is answered; what was seen there."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(directory)
        os.execve(sys.executable, words(*arguments), ENVIRONMENT)
    seen = ""
    with contextlib.suppress(OSError):  # the terminal is gone when the command has ended
        while data := os.read(terminal, 4096):
            seen += data.decode()
            if seen.endswith("[y/N]: "):
                os.write(terminal, f"{answer}\n".encode())
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), seen


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """A cluster whose data directory is none of the usual; its bootstrap servers, and what `up`
    told about it. It is stopped by the command that was told."""
    here = tmp_path_factory.mktemp("here")
    place = ("--data-dir", here / "my data", "--name", "other")
    started = tidelog(
        here, "up", "--no-console", "--detach", "--brokers", "1", "--port", "0", *place
    )
    try:
        assert started.returncode == 0, started.stderr
        (servers,) = {*re.findall(r"-b (\S+)", started.stdout)}
        yield here, servers, started.stdout
        told = re.search(r"stop with `tidelog (.*?)`", started.stdout).group(1)
        stopped = tidelog(here, *shlex.split(told))
        assert stopped.stdout == "other: 1 node stopped\n", stopped.stderr
    finally:
        tidelog(here, "down", *place)


def test_up_names_the_command_that_stops_this_cluster(elsewhere):
    here, _, told = elsewhere
    assert f"`tidelog down --data-dir '{here / 'my data'}' --name other`" in told
    refused = tidelog(
        here, "up", "--no-console", "--data-dir", here / "my data", "--name", "other", "--port", "0"
    )
    assert f"tidelog down --data-dir '{here / 'my data'}' --name other" in refused.stderr


def test_a_mistyped_topic_is_not_made_by_writing_to_it(elsewhere):
    here, servers, _ = elsewhere
    refused = tidelog(here, "produce", "oders", "--value", "x", "-b", servers)
    assert refused.returncode == 1
    assert "there is no topic oders" in refused.stderr
    assert "tidelog topic create oders    or    --create" in refused.stderr
    assert "oders" not in tidelog(here, "topic", "list", "-b", servers).stdout


def test_create_makes_the_topic_that_is_written_to(elsewhere):
    here, servers, _ = elsewhere
    written = tidelog(here, "produce", "made", "--value", "x", "--create", "-b", servers)
    assert written.stdout == "1 record written · made-0 [0, 1)\n", written.stderr
    again = tidelog(here, "produce", "made", "--value", "x", "-b", servers)
    assert again.stdout == "1 record written · made-0 [1, 2)\n", again.stderr


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 130)])
def test_at_a_terminal_produce_asks_before_it_makes_a_topic(elsewhere, answer, code):
    here, servers, _ = elsewhere
    topic = f"asked-{answer}"
    ended, seen = typed(here, answer, "produce", topic, "--value", "x", "-b", servers)
    assert f"There is no topic {topic}. Create it? [y/N]: " in seen
    assert ended == code, seen
    listed = tidelog(here, "topic", "list", "-b", servers).stdout
    assert (topic in listed) == (answer == "y")
