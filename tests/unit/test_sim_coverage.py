"""What counts as a line that a seed could run, and what as one that it ran."""

import json
from textwrap import dedent

import pytest
from click.testing import CliRunner

from tidelog.cli.main import cli
from tidelog.cli.sim.coverage import ranges
from tidelog.sim.coverage import SHELL, Statements, Tracer, measure, packages_with
from tidelog.sim.nodes.run import run_node_seed

QUICK = 138
"""A seed that takes few steps, and so does the next."""

EXAMPLE = dedent(
    """\
    import os

    LIMIT = 3


    class Port:
        size = 1

        def answer(self) -> int: ...

        def ask(
            self,
        ) -> int:
            '''The head does not count.'''
            return max(
                1,
                2,
            )


    def judge(number):
        assert number >= 0, (
            f"negative: "
            f"{number}"
        )
        if number > LIMIT:
            return "many"
        elif number:
            return "some"
        return "none"


    def bury():
        judge(9)
    """
)


def lines_with(*texts):
    return {
        number
        for number, line in enumerate(EXAMPLE.splitlines(), 1)
        if any(text in line for text in texts)
    }


def test_a_line_counts_where_a_statement_of_a_function_begins():
    found = Statements(EXAMPLE, "example.py").lines
    assert found == lines_with("return", "assert", "if number", "judge(9)")


def traced(work, *names):
    space = {}
    exec(compile(EXAMPLE, "example.py", "exec"), space)
    tracer = Tracer(["example.py"], space["bury"].__code__)
    measured = tracer.run(lambda: work(*(space[name] for name in names)))
    executed = measured.lines.get("example.py", set())
    statements = Statements(EXAMPLE, "example.py")
    return statements.of(executed) & statements.lines


def test_what_ran_is_noted_however_often_it_runs():
    def work(judge):
        for number in (1, 2, 0, 1):
            judge(number)

    assert traced(work, "judge") == lines_with("assert", "if number", "some", "none")


def test_what_runs_while_processes_are_buried_is_not_noted():
    def work(judge, bury):
        judge(0)
        bury()
        judge(1)

    seen = traced(work, "judge", "bury")
    assert seen == lines_with("assert", "if number", "none")


def test_neighbours_are_told_as_ranges():
    assert ranges((3, 5, 6, 9, 20), (1, 3, 5, 6, 8, 9, 20)) == "3-6, 9-20"
    assert ranges((), (1, 2)) == ""


@pytest.fixture(scope="module")
def one_seed():
    (measured,) = measure(range(QUICK, QUICK + 1), jobs=1)
    return measured


def test_a_traced_seed_does_what_it_does_untraced(one_seed):
    assert one_seed.result == run_node_seed(QUICK)


def test_a_seed_runs_much_of_the_shell_and_not_all_of_it(one_seed):
    packages = {each.name: each for each in packages_with(one_seed.lines)}
    for name in SHELL:
        assert packages[name].executed <= packages[name].lines
        assert packages[name].lines > 100
    assert packages["broker"].percent > 30
    assert packages["broker"].executed < packages["broker"].lines


def test_the_command_says_how_much_of_each_package_ran_and_fails_below_the_bar():
    seeds = ["--first", str(QUICK), "--seeds", "2", "--jobs", "2"]
    arguments = ["sim", "coverage", *seeds, "--missing", "rpc"]
    ran = CliRunner().invoke(cli, [*arguments, "-o", "json", "--at-least", "100"])
    assert ran.exit_code == 4, ran.output
    document = json.loads(ran.stdout)
    assert document["seeds"] == 2
    assert document["violations"] == 0
    rpc = document["packages"]["rpc"]
    missing = sum(map(len, document["missing"].values()))
    assert rpc["lines"] - rpc["executed"] == missing > 0
    assert all(path.startswith("rpc/") for path in document["missing"])
