"""Seeds collected over many runs: nothing that was finished is lost or run twice."""

import json
import signal
import subprocess
import sys

import pytest
from click.testing import CliRunner

from tidelog.cli.main import cli
from tidelog.cli.sim.campaign import commit_of_this_code
from tidelog.host.directory_lock import DirectoryLock
from tidelog.sim.campaign import CampaignError, CampaignTable, Finding, Row, summary

QUICK = 137
"""The first of four seeds that take few steps."""
FOUND = Finding("N1 acknowledged records are read at their offsets", 4_200, "12 are gone")


def row(seed, commit="aaa", findings=()):
    return Row(
        commit=commit,
        seed=seed,
        steps=1_000,
        simulated_ms=20_000,
        busy_ns=50_000_000,
        acknowledged=300,
        lost=0,
        faults={"kill": 2, "cut": 1},
        marks={"elr_elected": 1},
        findings=tuple(findings),
        replay=f"tidelog sim run --seed {seed}",
        digest=f"digest of {seed}",
    )


def campaign(*words):
    ran = CliRunner().invoke(cli, ["sim", "campaign", *map(str, words)])
    if ran.exception is not None and not isinstance(ran.exception, SystemExit):
        raise ran.exception
    return ran


def test_rows_are_read_as_they_were_written(tmp_path):
    table = CampaignTable(tmp_path)
    table.append([row(0), row(1, findings=[FOUND])])
    table.append([row(2, commit="bbb")])
    assert list(table.rows()) == [row(0), row(1, findings=[FOUND]), row(2, commit="bbb")]
    assert table.seeds_of("aaa") == {0, 1}


def test_a_part_that_a_killed_process_left_is_not_read(tmp_path):
    table = CampaignTable(tmp_path)
    table.append([row(0)])
    (part,) = tmp_path.glob("part-*")
    (tmp_path / "unfinished").write_bytes(part.read_bytes()[:20])
    assert [each.seed for each in table.rows()] == [0]
    table.append([row(1)])
    assert [each.seed for each in table.rows()] == [0, 1]


def test_a_damaged_part_is_named(tmp_path):
    table = CampaignTable(tmp_path)
    table.append([row(0)])
    (part,) = tmp_path.glob("part-*")
    part.write_bytes(part.read_bytes()[:20])
    with pytest.raises(CampaignError, match=r"part-000001\.jsonl\.gz cannot be read"):
        list(table.rows())
    shown = campaign(tmp_path, "--report")
    assert shown.exit_code == 1
    assert "part-000001.jsonl.gz" in shown.stderr


def test_commits_are_summed_apart_and_together():
    rows = [row(0), row(1, findings=[FOUND]), row(0, commit="bbb")]
    collected = summary(rows)
    assert collected.total.seeds == 3
    assert collected.total.faults == {"kill": 6, "cut": 3}
    assert [each.seeds for each in collected.commits.values()] == [2, 1]
    assert collected.commits["bbb"].failed == []
    assert collected.total.failed == [rows[1]]
    assert collected.total.steps_per_second == 20_000


def test_a_report_shows_every_commit_and_how_to_replay_what_was_found(tmp_path):
    CampaignTable(tmp_path).append([row(0), row(1, findings=[FOUND]), row(0, commit="bbb")])
    text = campaign(tmp_path, "--report").stdout
    assert f"seed 1 of aaa broke {FOUND.rule}" in text
    assert "  replay: tidelog sim run --seed 1\n" in text
    document = json.loads(campaign(tmp_path, "--report", "-o", "json").stdout)
    assert document["seeds"] == 3
    assert document["commits"]["bbb"]["seeds"] == 1
    assert document["findings"][0]["replay"] == "tidelog sim run --seed 1"


def test_a_campaign_goes_on_with_the_seeds_that_its_commit_has_not_run(tmp_path):
    commit = commit_of_this_code()
    has_run, other = [row(QUICK, commit), row(QUICK + 2, commit)], row(QUICK + 1, "another")
    CampaignTable(tmp_path).append([*has_run, other])
    ran = campaign(tmp_path, "--first", QUICK, "--seeds", 2, "--jobs", 2, "-o", "json")
    assert ran.exit_code == 0, ran.output
    rows = [each for each in CampaignTable(tmp_path).rows() if each.commit == commit]
    assert sorted(each.seed for each in rows) == [QUICK + number for number in range(4)]
    new = next(each for each in rows if each.seed == QUICK + 1)
    assert new.steps > 1_000
    assert new.replay.startswith(f"tidelog sim run --seed {QUICK + 1}")
    assert new.digest == digest_of(QUICK + 1)


def digest_of(seed):
    ran = CliRunner().invoke(cli, ["sim", "run", "--seed", str(seed), "-o", "json"])
    return json.loads(ran.stdout)["digest"]


def test_an_interrupted_campaign_keeps_what_was_finished(tmp_path):
    running = subprocess.Popen(
        [sys.executable, "-m", "tidelog", "sim", "campaign", tmp_path, "--seeds", "10000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with running:
        finished = 0
        while finished == 0:
            finished = int(running.stderr.readline().split(" of ")[0])
        running.send_signal(signal.SIGINT)
        said, _ = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "more: tidelog sim campaign" in said
    assert len(list(CampaignTable(tmp_path).rows())) >= finished


def test_two_campaigns_do_not_write_to_one_directory(tmp_path):
    lock = DirectoryLock(tmp_path)
    assert lock.acquire()
    try:
        refused = campaign(tmp_path, "--seeds", 1)
    finally:
        lock.release()
    assert refused.exit_code == 1
    assert "another campaign is running" in refused.stderr


@pytest.mark.parametrize(
    "words",
    [(), ("--seeds", "1", "--minutes", "1"), ("--minutes", "1", "--master", "local[2]")],
)
def test_a_campaign_without_a_clear_end_is_wrong_usage(tmp_path, words):
    assert campaign(tmp_path, *words).exit_code == 2


def test_a_report_of_nothing_says_so(tmp_path):
    missing = campaign(tmp_path / "nowhere", "--report")
    assert missing.exit_code == 1
    assert "nothing was collected there" in missing.stderr
