"""`TIDELOG_CONSOLE=1 pytest …`: the cluster of a failed test stays until somebody has looked."""

import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from support.plugin_options import plugin_options

GUARD_S = 120
FAILING = """
import pytest

@pytest.mark.tidelog(ARGUMENTS)
def test_that_fails(tidelog_cluster):
    tidelog_cluster.topic("orders-of-the-failed", partitions=3)
    assert False, "on purpose"

def test_that_comes_after_it(tidelog):
    tidelog.topic("bills")
"""


@pytest.fixture
def arguments():
    return "brokers=2"


@pytest.fixture
def running(tmp_path, arguments):
    """pytest with somebody at its keyboard."""
    (tmp_path / "test_theirs.py").write_text(FAILING.replace("ARGUMENTS", arguments))
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", *plugin_options()],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "PYTEST_ADDOPTS": "",
            "TIDELOG_CONSOLE": "1",
        },
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait(GUARD_S)
        process.stdin.close()
        process.stdout.close()


def told_until(process, pattern):
    """All lines up to the one that fits."""
    lines = []
    for line in process.stdout:
        lines.append(line)
        found = re.search(pattern, line)
        if found:
            return found
    raise AssertionError("".join(lines))


def get(url):
    with urllib.request.urlopen(url, timeout=GUARD_S) as answer:
        return json.load(answer)


def test_the_console_shows_the_cluster_until_enter_is_pressed(running):
    told_until(running, "TIDELOG_CONSOLE: the cluster of this test is at 127.0.0.1:")
    url = told_until(running, r"console of .*: (http://\S+)").group(1)
    document = get(f"{url}/api/topics")
    assert "orders-of-the-failed" in json.dumps(document)
    rest, _ = running.communicate("\n", timeout=GUARD_S)
    assert "1 failed, 1 passed" in rest
    assert running.returncode == 1
    with pytest.raises(urllib.error.URLError):
        get(f"{url}/api/topics")


@pytest.mark.long
@pytest.mark.parametrize("arguments", ["brokers=1, host='process', secure=True"])
def test_the_console_of_a_secured_cluster_says_where_its_login_is(running):
    path = told_until(running, "asks for a login, which is in (.*)$").group(1)
    assert "sasl." in Path(path).read_text()
    url = told_until(running, r"console of .*: (http://\S+)").group(1)
    with pytest.raises(urllib.error.HTTPError, match="401"):
        get(f"{url}/api/topics")
    rest, _ = running.communicate("\n", timeout=GUARD_S)
    assert "1 failed, 1 passed" in rest
