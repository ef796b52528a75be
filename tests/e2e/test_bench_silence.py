"""`tidelog bench silence`, as small as it goes. No figure is judged."""

import json

from click.testing import CliRunner

from tidelog.bench.silence.run import Outcome, Phase
from tidelog.cli.bench.silence import report
from tidelog.cli.failure import VIOLATION
from tidelog.cli.main import cli

SMALL = ["bench", "silence", "--topics", "3", "--partitions", "2", "--names", "500"]


def test_every_phase_is_told_for_every_broker_and_only_a_given_bar_is_judged() -> None:
    ran = CliRunner().invoke(cli, [*SMALL, "-o", "json", "--bar-ms", "1"])
    assert ran.exit_code == VIOLATION, ran.stderr
    document = json.loads(ran.stdout)
    names = [phase["phase"] for phase in document["phases"]]
    assert names == ["create", "alter topic", "alter broker", "metadata", "delete"]
    for phase in document["phases"]:
        assert set(phase["silence_ms"]) == {"1", "2", "3"}
        assert min(phase["silence_ms"].values()) > 0
    assert document["fenced"] == []


def test_the_report_names_who_held_a_loop_and_who_was_fenced(capsys) -> None:
    phase = Phase("create", 1.5, {1: 1200.4, 2: 21.0}, 0.7, 3.0)
    report(Outcome([phase], ["2: … broker 1 fenced"], ["1: … held the event loop"]))
    said = capsys.readouterr().out
    assert "create  1.5 s  1200 ms   21 ms     3 ms     0.7 s" in said
    assert "1: … held the event loop" in said
    assert "longest silence 1200 ms · 1 broker fenced" in said
