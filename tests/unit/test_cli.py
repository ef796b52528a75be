"""The command line: what it prints, where, and with which exit code."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from support import toy_runs
from support.toy_runs import RULE, strict_toy, toy
from tidelog import __version__
from tidelog.cli.main import cli
from tidelog.cli.output import duration, plural, tally
from tidelog.sim.marks import MARKS
from tidelog.wire.kernel import implementation

HERE = Path(__file__).parent


@pytest.fixture
def tidelog(monkeypatch):
    toy_runs.install(monkeypatch)

    return lambda *arguments: CliRunner().invoke(cli, arguments)


@pytest.fixture
def failing_seed():
    return next(seed for seed in range(500) if strict_toy(seed).violations)


def in_a_shell(*arguments, program=("-m", "tidelog"), extra_environment=(), **extra):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    environment.update(extra_environment)
    return subprocess.run(
        [sys.executable, *program, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        **extra,
    )


def test_the_version_is_that_of_the_package(tidelog):
    result = tidelog("--version")
    assert (result.exit_code, result.stdout) == (0, f"tidelog {__version__}\n")


@pytest.mark.parametrize(("pure", "kernels"), [("1", "python"), ("", implementation())])
def test_the_version_says_whether_the_kernels_are_compiled(pure, kernels):
    told = in_a_shell("version", "-o", "json", extra_environment={"TIDELOG_PURE": pure})
    assert json.loads(told.stdout)["kernels"] == kernels


@pytest.mark.parametrize(
    ("command", "first_example"),
    [
        (["--help"], "tidelog demo"),
        (["sim", "--help"], "tidelog sim run --seeds 2000"),
        (["sim", "run", "--help"], "tidelog sim run --seeds 2000"),
        (["sim", "replay", "-h"], "tidelog sim replay seed-4711.replay.json"),
        (["sim", "shrink", "--help"], "tidelog sim shrink 4711 --out bug.json"),
        (["sim", "mutants", "--help"], "tidelog sim mutants"),
        (["sim", "bench", "--help"], "tidelog sim bench --seeds 50"),
        (["lab", "--help"], "tidelog lab list"),
        (["lab", "list", "--help"], "tidelog lab list"),
        (["lab", "run", "--help"], "tidelog lab run reconcile --step"),
        (["audit", "run", "--help"], "tidelog audit run --for 60s"),
        (["audit", "history", "--help"], "tidelog audit history history.parquet"),
        (["demo", "--help"], "tidelog demo"),
    ],
)
def test_every_help_shows_an_example_before_the_options(tidelog, command, first_example):
    result = tidelog(*command)
    assert result.exit_code == 0
    before_options = result.stdout.partition("Options:")[0]
    assert first_example in before_options


def test_help_works_from_a_shell_and_says_nothing_on_stderr():
    result = in_a_shell("--help")
    assert result.returncode == 0
    assert result.stderr == ""
    assert [
        line.split()[0] for line in result.stdout.partition("Commands:\n")[2].splitlines()[:3]
    ] == [
        "demo",
        "lab",
        "up",
    ]


def test_starting_up_imports_neither_rich_nor_the_simulator():
    heavy = "[m for m in ('rich', 'tidelog.sim', 'multiprocessing', 'asyncio') if m in sys.modules]"
    result = in_a_shell(program=("-c", f"import sys, tidelog.cli.main; print({heavy})"))
    assert result.stdout == "[]\n"


def test_no_command_at_all_shows_the_list_and_is_wrong_usage(tidelog):
    result = tidelog("sim")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Commands:" in result.stderr


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (
            ["sim", "rum"],
            'error: sim rum: no command "rum"\n'
            '  why: did you mean "run"?\n'
            "  try: tidelog sim --help\n",
        ),
        (
            ["sim", "run", "--sed", "3"],
            "error: sim run: no option --sed\n"
            "  why: did you mean --seed or --seeds?\n"
            "  try: tidelog sim run --help\n",
        ),
        (
            ["sim", "run", "--seed", "-1"],
            "error: sim run: wrong value for --seed\n"
            "  why: -1 is not in the range x>=0\n"
            "  try: tidelog sim run --help\n",
        ),
        (
            ["sim", "run", "--seed", "7", "--seeds", "3"],
            "error: sim run: --seed together with --seeds, --first, --minutes or"
            " --require-marks\n"
            "  why: --seed tells one run as a story, the others are for many runs\n"
            "  try: tidelog sim run --seed 7\n",
        ),
        (
            ["sim", "shrink"],
            "error: sim shrink: SEED is missing\n"
            "  why: the command needs it\n"
            "  try: tidelog sim shrink --help\n",
        ),
        (
            ["sim", "run", "--mutant", "intoleran"],
            'error: sim run: no mutant "intoleran"\n'
            '  why: did you mean "intolerant"?\n'
            "  try: tidelog sim mutants --help\n",
        ),
        (
            ["lab", "run", "xyzzy"],
            'error: lab run xyzzy: no story "xyzzy"\n'
            "  why: known: reconcile, twisted\n"
            "  try: tidelog lab list\n",
        ),
        (
            ["lab", "run", "reconcile", "--step"],
            "error: lab run reconcile: cannot wait between steps\n"
            "  why: --step needs a terminal and text output\n"
            "  try: tidelog lab run reconcile\n",
        ),
    ],
)
def test_wrong_usage_says_what_why_and_what_to_try(tidelog, command, message):
    result = tidelog(*command)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr == message


def test_an_error_in_json_has_the_same_four_fields(tidelog):
    result = tidelog("sim", "shrink", "3", "-o", "json")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert json.loads(result.stderr) == {
        "command": "sim shrink 3",
        "error": "seed 3 breaks no rule",
        "why": "there is nothing to shrink",
        "try": "tidelog sim run --seed 3",
    }


def test_a_defect_shows_its_traceback_only_with_debug(tidelog, monkeypatch):
    monkeypatch.setattr("tidelog.sim.nodes.run.draw_node_plan", None)
    result = tidelog("sim", "run", "--seeds", "2", "--jobs", "1")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: sim run: TypeError")
    assert "Traceback" not in result.stderr
    debugged = tidelog("sim", "run", "--seeds", "2", "--jobs", "1", "--debug")
    assert isinstance(debugged.exception, TypeError)


def test_many_seeds_in_json_are_one_object_with_every_key(tidelog):
    result = tidelog("sim", "run", "--seeds", "8", "--first", "3", "--jobs", "1", "-o", "json")
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert {
        "seeds",
        "violations",
        "failures",
        "steps",
        "steps_per_second",
        "simulated_seconds",
        "faults",
        "acknowledged",
        "lost",
        "marks",
        "digest",
    } <= set(document)
    assert document["seeds"] == 8
    assert document["first"] == 3
    assert document["violations"] == 0
    assert document["failures"] == []
    assert document["steps"] > 0
    assert document["steps_per_second"] > 0
    assert document["marks"] == dict.fromkeys(sorted(MARKS), 0), "also those never reached"


def test_a_proof_that_requires_marks_fails_and_names_the_states_it_never_saw(tidelog):
    relaxed = tidelog("sim", "run", "--seeds", "3", "--jobs", "1")
    assert relaxed.exit_code == 0
    assert f"marks     0 of {len(MARKS)} reached" in relaxed.stdout
    strict = tidelog("sim", "run", "--seeds", "3", "--jobs", "1", "--require-marks")
    assert strict.exit_code == 1
    assert f"{len(MARKS)} marks not reached in 3 seeds" in strict.stderr
    assert f"elr_elected: {MARKS['elr_elected']}" in strict.stderr


def test_requiring_marks_of_a_single_story_is_wrong_usage(tidelog):
    assert tidelog("sim", "run", "--seed", "3", "--require-marks").exit_code == 2


def test_the_digest_is_the_same_for_any_number_of_jobs(tidelog):
    digests = {
        json.loads(tidelog("sim", "run", "--seeds", "9", "--jobs", jobs, "-o", "json").stdout)[
            "digest"
        ]
        for jobs in ("1", "2", "3")
    }
    assert len(digests) == 1


def test_many_seeds_as_text_end_with_a_verdict_and_the_digest(tidelog):
    result = tidelog("sim", "run", "--seeds", "5", "--jobs", "1")
    assert result.exit_code == 0
    first, second, *_ = result.stdout.splitlines()
    assert first.startswith("ok · 5 seeds, 0 violations · ")
    assert first.endswith(" steps/s per core")
    assert second.startswith("acknowledged ")
    assert "· lost 0 ·" in second
    assert result.stderr == ""


def test_a_violation_is_exit_code_five_with_a_command_that_replays_it(tidelog, failing_seed):
    seed = str(failing_seed)
    many = tidelog("sim", "run", "--first", seed, "--seeds", "1", "--mutant", "intolerant")
    assert many.exit_code == 5
    assert many.stdout.startswith("FAILED · 1 seed, 1 violation")
    replay = f"tidelog sim run --seed {seed} --mutant intolerant"
    assert f"  replay: {replay}" in many.stdout.splitlines()
    assert f"  shrink: tidelog sim shrink {seed} --mutant intolerant" in many.stdout.splitlines()
    assert f"  open:   {replay} --open" in many.stdout.splitlines()
    again = tidelog(*replay.split()[1:])
    assert again.exit_code == 5
    assert RULE in again.stdout


def test_a_violation_in_json_names_rule_seed_text_and_replay(tidelog, failing_seed):
    arguments = ["--first", str(failing_seed), "--seeds", "1", "--mutant", "intolerant"]
    document = json.loads(tidelog("sim", "run", *arguments, "-o", "json").stdout)
    assert document["violations"] == 1
    failure = document["failures"][0]
    assert failure["rule"] == RULE
    assert failure["seed"] == failing_seed
    assert "begins before" in failure["text"]
    assert failure["replay"] == f"tidelog sim run --seed {failing_seed} --mutant intolerant"


def test_one_seed_is_a_story_between_its_options_and_its_verdict(tidelog):
    result = tidelog("sim", "run", "--seed", "6")
    lines = result.stdout.splitlines()
    assert lines[0].startswith("seed 6 · ")
    assert lines[1].startswith("columns: nodes 1, 2, …")
    assert lines[2].endswith("── calm")
    assert any("fault: " in line for line in lines)
    assert lines[-1].startswith("ok · ")
    assert lines[-1].endswith("replay: tidelog sim run --seed 6")
    assert result.stdout == tidelog("sim", "run", "--seed", "6").stdout


def test_one_seed_in_json_carries_its_story(tidelog):
    document = json.loads(tidelog("sim", "run", "--seed", "6", "-o", "json").stdout)
    assert document["seed"] == 6
    assert document["violations"] == 0
    assert document["digest"] == toy(6).digest
    assert document["story"][0]["event"] == "PhaseBegan"
    assert {"at_ms", "step", "node", "event", "text"} == set(document["story"][0])


def test_a_seed_is_shrunk_to_a_file_that_replays_it(tidelog, failing_seed, tmp_path):
    path = tmp_path / "bug.json"
    arguments = ["sim", "shrink", str(failing_seed), "--mutant", "intolerant", "--out", str(path)]
    shrunk = tidelog(*arguments)
    assert shrunk.exit_code == 0
    assert "→ 2 faults" in shrunk.stdout
    assert shrunk.stdout.endswith(f"replay: tidelog sim replay {path}\n")
    replayed = tidelog("sim", "replay", str(path))
    assert replayed.exit_code == 5
    assert RULE in replayed.stdout
    assert "the same run, step by step" in replayed.stdout


def test_a_replay_of_a_mended_bug_says_so_and_succeeds(tidelog, failing_seed, tmp_path):
    path = tmp_path / "bug.json"
    arguments = ["sim", "shrink", str(failing_seed), "--mutant", "intolerant", "--out", str(path)]
    document = json.loads(tidelog(*arguments, "-o", "json").stdout)
    assert document["rule"] == RULE
    assert len(document["faults"]) == 2
    mended = {**json.loads(path.read_text()), "mutant": None}
    path.write_text(json.dumps(mended))
    replayed = tidelog("sim", "replay", str(path))
    assert replayed.exit_code == 0
    assert f"it broke {RULE}; now nothing" in replayed.stdout


def test_a_file_that_is_no_replay_is_wrong_usage(tidelog, tmp_path):
    path = tmp_path / "other.json"
    path.write_text("[]")
    result = tidelog("sim", "replay", str(path))
    assert result.exit_code == 2
    assert "why: it holds no plan" in result.stderr
    assert tidelog("sim", "replay", str(tmp_path / "absent")).exit_code == 2


def test_mutants_are_listed_with_what_killed_them_and_a_survivor_is_an_error(tidelog, failing_seed):
    arguments = ["sim", "mutants", "--seeds", str(failing_seed + 5), "-o", "json"]
    result = tidelog(*arguments)
    assert result.exit_code == 1
    killed, survivor = json.loads(result.stdout)
    assert killed == {
        "name": "intolerant",
        "killed": True,
        "rule": RULE,
        "seeds": failing_seed + 1,
        "title": "two faults at once are forbidden",
    }
    assert survivor["killed"] is False
    assert survivor["seeds"] == failing_seed + 5


def test_one_mutant_can_be_asked_for_as_a_table(tidelog, failing_seed):
    result = tidelog("sim", "mutants", "intolerant", "--seeds", "500")
    assert result.exit_code == 0
    header, row, total = result.stdout.splitlines()
    assert header.split() == ["MUTANT", "KILLED", "SEEDS", "RULE", "WHAT", "IS", "BROKEN"]
    assert row.startswith(f"intolerant  yes     {failing_seed + 1}")
    assert total == "1 of 1 mutant killed"


def test_without_mutants_the_command_says_where_they_are(tidelog, monkeypatch):
    monkeypatch.setattr("tidelog.sim.mutation.PACKAGE", "tidelog.sim.no_mutants_here")
    result = tidelog("sim", "mutants")
    assert result.exit_code == 1
    assert "source checkout" in result.stderr


def test_the_bench_measures_the_world_and_the_kernel(tidelog, monkeypatch):
    monkeypatch.setattr("tidelog.sim.bench.STEPS", 2_000)
    document = json.loads(tidelog("sim", "bench", "--seeds", "2", "-o", "json").stdout)
    assert document["seeds"] == 2
    assert document["steps_per_second"] > 0


def test_the_lab_lists_and_plays_its_stories(tidelog):
    assert tidelog("lab", "list").stdout == (
        "NAME       STORY\n"
        "reconcile  Three logs become equal\n"
        "twisted    A story that ends otherwise\n"
    )
    played = tidelog("lab", "run", "reconcile")
    assert (played.exit_code, played.stdout) == (0, "101 dies, 103 leads\n")


def test_a_story_that_ends_otherwise_is_a_violation(tidelog):
    played = tidelog("lab", "run", "twisted")
    assert played.exit_code == 5
    assert played.stdout.endswith("not as told: three logs differ\n")
    document = json.loads(tidelog("lab", "run", "twisted", "-o", "json").stdout)
    assert document["broken"] == ["three logs differ"]


INTERRUPTED = f"""
import sys
sys.path.insert(0, {str(HERE.parent)!r})
import pytest
from support import toy_runs
toy_runs.install(pytest.MonkeyPatch())
from tidelog.sim import fleet
from tidelog.cli import progress
progress.LINE_EVERY_SECONDS = 0.0
from tidelog.cli.main import main
main()
"""


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_an_interrupt_ends_with_130_and_what_was_found_so_far(jobs):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    arguments = ["sim", "run", "--minutes", "5", "--jobs", jobs, "-o", "json"]
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        assert process.stderr is not None
        progress = process.stderr.readline()
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
    assert "seeds" in progress
    assert "left" in progress
    assert process.returncode == 130
    document = json.loads(stdout)
    assert document["interrupted"] is True
    assert document["seeds"] >= 1
    assert "Traceback" not in stderr


def test_completion_knows_the_commands():
    environment = {
        "_TIDELOG_COMPLETE": "bash_complete",
        "COMP_WORDS": "tidelog si",
        "COMP_CWORD": "1",
    }
    program = (
        "import os, sys; sys.argv = ['tidelog'];"
        f"os.environ.update({environment!r});"
        "from tidelog.cli.main import main; main()"
    )
    assert in_a_shell(program=("-c", program)).stdout == "plain,sim\n"


def test_output_is_without_colour_in_a_pipe(tidelog):
    assert "\x1b[" not in tidelog("sim", "run", "--seeds", "2", "--jobs", "1").stdout


def test_numbers_read_well():
    assert [duration(s) for s in (0.42, 38, 600, 9_000, 400_000)] == [
        "0.4 s",
        "38 s",
        "10 min",
        "2.5 h",
        "4.6 days",
    ]
    assert [plural(1, "seed"), plural(2_000, "seed"), plural(2, "story")] == [
        "1 seed",
        "2,000 seeds",
        "2 stories",
    ]
    assert tally({"pause": 3, "crash": 12, "split": 3}) == "crash 12 · pause 3 · split 3"
    assert tally({}) == "none"
