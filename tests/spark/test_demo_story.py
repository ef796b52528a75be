"""`tidelog demo`: the whole story, small. It has a cluster and a JVM of its own."""

import json
import os
import subprocess
import sys

import pytest

GUARD_S = 280


def demo(tmp_path, *arguments, **environment):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    return subprocess.run(
        [sys.executable, "-m", "tidelog", "demo", *arguments],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "TMPDIR": str(temporary),
            **environment,
        },
        timeout=GUARD_S,
        check=False,
    )


@pytest.mark.long
def test_topic_table_and_acknowledgements_agree_though_a_leader_is_killed(tmp_path):
    ran = demo(tmp_path, "--orders", "3000", "--for", "8s", "--report", "seen", "-o", "json")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found = json.loads(ran.stdout)
    verdict = found["verdict"]
    assert found["ok"] is verdict["holds"] is True
    assert verdict["acknowledged"] == verdict["topic"] == verdict["table"] == 3001
    assert verdict["windows"] == 90
    assert set(verdict["cents"]) == {"EUR", "GBP", "USD"}
    assert found["spark"]["revenue"]["rows"] == found["spark"]["table"]["rows"] == 3001
    assert found["killed"]["longest_gap_ms"] > 0
    assert found["replicas"]["differences"] == []
    assert found["replicas"]["read_bytes"] > 0
    assert (tmp_path / "seen" / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert "data:image/png" in (tmp_path / "seen" / "demo.html").read_text("utf-8")
    assert list((tmp_path / "temporary").iterdir()) == [], "something was left behind"


def test_without_java_it_says_what_else_there_is(tmp_path):
    ran = demo(tmp_path, JAVA_HOME=str(tmp_path))
    assert ran.returncode == 2
    assert "Spark needs Java" in ran.stderr
    assert "tidelog demo --without-spark" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.parametrize(
    "arguments", [("--seeds", "3"), ("--without-spark", "--orders", "1000")], ids=" ".join
)
def test_options_of_the_other_story_are_refused(tmp_path, arguments):
    ran = demo(tmp_path, *arguments)
    assert ran.returncode == 2
    assert "does not fit here" in ran.stderr
