"""The web console of a local cluster, as a process beside its nodes."""

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

from tidelog.cluster.nodes import LocalNodes, child_environment
from tidelog.cluster.process_ids import ProcessId
from tidelog.cluster.state import ConsoleState

START_WITHIN_SECONDS = 15.0
STOP_WITHIN_SECONDS = 5.0
POLL_SECONDS = 0.02


class NoConsole(Exception):  # noqa: N818 - it names what is so
    """It did not start, and why."""


def log_file(directory: Path) -> Path:
    return directory / "console.log"


def start(nodes: LocalNodes, port: int, *, attached: bool) -> str:
    """Its address, when it can be opened. Any port, if that one is taken."""
    stop(nodes)
    reading, writing = os.pipe()
    home = nodes.directory
    command = [sys.executable, "-m", "tidelog", "console", "--data-dir", str(home.parent)]
    command += ["--name", home.name, "--port", str(port), "--any-port"]
    command += ["--announce", str(writing)]
    inherited = [writing]
    if attached:
        inherited.append(nodes.lifeline())
        command += ["--lifeline", str(nodes.lifeline())]
    try:
        with log_file(home).open("wb") as log:
            child = subprocess.Popen(  # noqa: S603 - our own program
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=inherited,
                env=child_environment(),
                start_new_session=not attached,
                process_group=0 if attached else None,
            )
        os.close(writing)
        url = _announced(reading)
    except OSError as reason:
        raise NoConsole(str(reason)) from None
    finally:
        os.close(reading)
    process = ProcessId.of(child.pid)
    if url is None or process is None:
        child.kill()
        child.wait()
        raise NoConsole(_last_line(home))
    nodes.state.console = ConsoleState(url, process)
    nodes.save()
    return url


def stop(nodes: LocalNodes) -> None:
    """Nothing happens if it does not run."""
    console = nodes.state.console
    if console is None:
        return
    if console.process.send(signal.SIGTERM):
        deadline = time.monotonic() + STOP_WITHIN_SECONDS
        while console.process.is_alive() and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        console.process.send(signal.SIGKILL)
    nodes.state.console = None
    nodes.save()


def _announced(reading: int) -> str | None:
    """What the child writes when it serves; None if it ends or takes too long."""
    ready, _, _ = select.select([reading], [], [], START_WITHIN_SECONDS)
    text = os.read(reading, 4096).decode() if ready else ""
    return text.strip() or None


def _last_line(home: Path) -> str:
    """Why it did not start, in its own words."""
    lines = log_file(home).read_text("utf-8", "replace").split("\n")
    told = [line.strip() for line in lines if line.strip()]
    reason = next((line[5:] for line in told if line.startswith("why: ")), None)
    return reason or (told[-1] if told else "it said nothing")
