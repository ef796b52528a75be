"""A seed of the simulator opens in a browser, with what it found."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from support.toy_runs import RULE, strict_toy
from tidelog.cli.main import cli

TOYS = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from pytest import MonkeyPatch
from support import toy_runs
toy_runs.install(MonkeyPatch())
from tidelog.cli.main import main
main()
"""
GUARD_SECONDS = 240


def stub_browser(folder: Path) -> tuple[str, Path]:
    """A browser that says what it was to open, and where it says so: a pipe."""
    opened, script = folder / "opened", folder / "browser"
    os.mkfifo(opened)
    script.write_text(f'#!/bin/sh\necho "$1" > {opened}\n')
    script.chmod(0o755)
    return f"{script} %s", opened


@contextmanager
def in_a_shell(*arguments: str, browser: str) -> Iterator[subprocess.Popen[str]]:
    """Runs that take milliseconds, on Python's own handler of Ctrl-C."""
    python_path = os.pathsep.join(filter(None, sys.path))
    process = subprocess.Popen(
        [sys.executable, "-c", TOYS, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": python_path, "BROWSER": browser},
    )
    guard = threading.Timer(GUARD_SECONDS, process.kill)
    guard.start()
    try:
        with process:
            yield process
    finally:
        process.kill()
        guard.cancel()


def printed_until(process: subprocess.Popen[str], word: str) -> str:
    assert process.stdout is not None
    printed = ""
    while word not in printed:
        line = process.stdout.readline()
        assert line, f"it ended without {word!r}: {printed}"
        printed += line
    return printed


def test_a_failing_seed_opens_in_the_browser_and_stays_until_ctrl_c(tmp_path: Path) -> None:
    seed = next(seed for seed in range(500) if strict_toy(seed).violations)
    browser, opened = stub_browser(tmp_path)
    command = ("sim", "run", "--seed", str(seed), "--mutant", "intolerant", "--open")
    with in_a_shell(*command, browser=browser) as process:
        printed = printed_until(process, "open: http")
        assert RULE in printed
        address = opened.read_text().strip()
        assert f"open: {address}   (Ctrl-C ends it)" in printed
        link = f"/lab/sim?seed={seed}&mutant=intolerant"
        assert re.fullmatch(rf"http://127\.0\.0\.1:[0-9]+{re.escape(link)}", address)
        api = address.replace(link, f"/api/lab/seed/{seed}?mutant=intolerant")
        with urllib.request.urlopen(api, timeout=60) as answer:
            told = json.load(answer)
        process.send_signal(signal.SIGINT)
        assert process.wait(GUARD_SECONDS) == 5
    assert (told["seed"], told["verdict"], told["link"]) == (seed, "violation", link)
    assert [violation["rule"] for violation in told["violations"]] == [RULE]
    assert told["story"][0]["lines"] == ["── calm"]


@pytest.mark.parametrize("extra", [("--seeds", "3"), ("--seed", "3", "-o", "json")])
def test_only_one_seed_with_text_can_be_opened(extra: tuple[str, ...]) -> None:
    assert CliRunner().invoke(cli, ["sim", "run", "--open", *extra]).exit_code == 2
