"""The scenario engine: reading scripts, playing them step by step, and its error messages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.sim.scenario import (
    Player,
    ScriptError,
    difference,
    look,
    parse_script,
    rewritten,
    run_script,
)
from tidelog.sim.scenario.commands import COMMANDS
from tidelog.sim.scenario.script import ArgumentError, duration_ms, list_of, split_command
from tidelog.sim.scenario.words import Cast, parse_log

SCENE = """\
# A leads, B follows.
given replicas=(A,B) A="a/0 b/0" B="a/0" hw=1
----
A* leader-epoch=0 isr=(A,B)
"""

STORY = f"""{SCENE}
# B fetches what it lacks.
# ? How does A learn that B has it?
fetch B times=2
----
B -> A fetch offset=1 last-epoch=0 | records b/0 high-watermark=1
B -> A fetch offset=2 last-epoch=0 | A: high-watermark 1 -> 2 | no records high-watermark=2
"""


def test_a_story_that_is_true_has_no_difference() -> None:
    assert difference(STORY) == ""
    assert rewritten(STORY) == STORY


def test_a_story_that_is_not_true_gets_a_readable_difference() -> None:
    lie = STORY.replace("high-watermark 1 -> 2", "high-watermark 1 -> 9")
    changed = difference(lie, "lie.txt").splitlines()
    assert changed[:2] == ["--- lie.txt (expected)", "+++ lie.txt (actual)"]
    assert [line for line in changed[3:] if line[0] in "+-"] == [
        "-B -> A fetch offset=2 last-epoch=0 | A: high-watermark 1 -> 9 "
        "| no records high-watermark=2",
        "+B -> A fetch offset=2 last-epoch=0 | A: high-watermark 1 -> 2 "
        "| no records high-watermark=2",
    ]
    assert rewritten(lie) == STORY


def test_rewriting_keeps_comments_questions_and_the_end() -> None:
    text = f"# Title.\n\n? Raw question\n{SCENE}\n# The end.\n"
    assert rewritten(text) == text


def test_a_script_is_played_step_by_step() -> None:
    player = Player(STORY)
    assert player.script.title == "A leads, B follows."
    first = player.next()
    assert first is not None
    assert (first.comment, first.question) == ("A leads, B follows.", "")
    assert first.output == ("A* leader-epoch=0 isr=(A,B)",)
    assert player.upcoming is not None
    assert player.upcoming.question == "How does A learn that B has it?"
    assert [replica.log_end_offset for replica in look(player.stage).replicas] == [2, 1]
    second = player.next()
    assert second is not None
    assert second.output == second.expected
    assert [replica.log_end_offset for replica in look(player.stage).replicas] == [2, 2]
    assert player.next() is None
    assert player.upcoming is None


def test_after_a_story_one_may_go_on_by_oneself() -> None:
    player = Player(STORY)
    while player.next() is not None:
        pass
    assert player.perform("produce x acks=1") == (
        "A: append offset=2 leader-epoch=0, answered produce x",
    )
    assert look(player.stage).replicas[0].log_end_offset == 3


def test_two_runs_of_a_script_are_the_same() -> None:
    assert run_script(STORY) == run_script(STORY)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("fetsch B", "line 6: unknown command 'fetsch': known are "),
        ("fetch B times=x", "line 6: fetch: times is a number, not 'x'; usage: fetch BROKER"),
        ("fetch B tiems=2", "line 6: fetch: unknown argument 'tiems=2'; usage: fetch BROKER"),
        ("fetch B times=2 times=3", "line 6: times= is given twice"),
        ("fetch", "line 6: fetch: a broker is missing; usage"),
        ("fetch E", "line 6: fetch: there is no broker E: the story has A, B; usage"),
        ("fetch 'B", 'line 6: cannot read "fetch \'B": No closing quotation'),
        ("advance soon", "line 6: advance: a duration is like 500ms, 30s or 5min, not 'soon'"),
        ("produce x acks=2", "line 6: produce: acks is all, 1 or 0, not '2'"),
        ("produce", "line 6: produce: name the records, or say count="),
        ("hold letter B", "line 6: hold: a message is one of fetch, answer, "),
        ("deliver fetch B", "line 6: deliver: no fetch is on the wire"),
        ("restart A", "line 6: restart: A is running"),
        ("set retention=1", "line 6: set: unknown setting 'retention'"),
        ("reassign replicas=A", "line 6: reassign: replicas is a list like (A,B), not 'A'"),
        ('given replicas=(A) A="a"', "line 6: given: a log is like 'a/0 b/0' or 'e0:[0..9]'"),
        ('given replicas=(A) A="e0:[1..2]"', "line 6: given: 'e0:[1..2]' does not continue"),
        ("given replicas=(A) hw.A=3", "line 6: given: hw.A=3 is beyond the log end 0"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(command: str, message: str) -> None:
    with pytest.raises(ScriptError) as wrong:
        run_script(f"{SCENE}\n{command}\n----\n")
    assert str(wrong.value).startswith(message)
    assert wrong.value.line == 6


def test_a_story_begins_with_a_scene() -> None:
    with pytest.raises(ScriptError, match=r"line 1: show: .* begin with 'given'"):
        run_script("show\n----\n")


def test_a_comment_without_its_mark_is_not_taken_for_a_command() -> None:
    with pytest.raises(ScriptError, match=r"line 2: 'B fetches\.' is not followed by '----'"):
        parse_script("# A leads.\nB fetches.\n# And so on.\n")


def test_a_command_about_which_there_is_nothing_to_tell_says_ok() -> None:
    steps = run_script(f"{SCENE}\nhold fetch B\n----\n")
    assert steps[-1].output == ("ok",)


def test_words_options_and_quotes_of_a_command() -> None:
    name, arguments = split_command('given x a=1 b="c d" min.insync.replicas=(2,3)')
    assert name == "given"
    assert arguments.words() == ["x"]
    assert arguments.options() == {"a": "1", "b": "c d", "min.insync.replicas": "(2,3)"}
    assert list_of("n", "(A, B)") == ["A", "B"]
    assert list_of("n", "()") == []
    assert (duration_ms("500ms"), duration_ms("30s"), duration_ms("5min")) == (500, 30_000, 300_000)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6))
def test_a_run_of_offsets_is_one_record_for_each(lengths: list[int]) -> None:
    parts, expected, offset = [], [], 0
    for epoch, length in enumerate(lengths):
        parts.append(f"e{epoch}:[{offset}..{offset + length - 1}]")
        expected += [(str(offset + n), epoch) for n in range(length)]
        offset += length
    assert parse_log(" ".join(parts)) == expected


def test_brokers_are_called_by_letters_or_numbers() -> None:
    cast = Cast()
    assert [cast.id_of(name) for name in ("A", "C", "101", "0")] == [1, 3, 101, 0]
    assert cast.names_of((3, 101, 0, -1)) == "(C,101,0,none)"
    with pytest.raises(ArgumentError):
        cast.id_of("Bob")


def test_every_command_says_what_it_does() -> None:
    for command in COMMANDS.values():
        assert command.help, f"{command.name} has no docstring"
        assert command.usage.startswith(command.name)


def test_a_lost_registration_is_tried_again() -> None:
    player = Player(f"{SCENE}\ncrash B\n----\n\nhold registration B\n----\n\nrestart B\n----\n")
    while (step := player.next()) is not None:
        last = step.output
    assert last == ("B -> controller registers | held",)
    assert player.perform("drop registration B") == ("ok",)
    assert player.perform("advance 1s")[:2] == (
        "controller: B registered broker-epoch=11",
        "controller: B unfenced",
    )


def test_the_next_controller_goes_on_where_the_last_one_stopped() -> None:
    player = Player(SCENE)
    player.next()
    assert player.perform("crash controller") == ("controller: claims controller-epoch=3",)
    assert player.perform("crash A") == (
        "controller: leader=B leader-epoch=1 isr=(B) partition-epoch=1",
    )


def test_a_consumer_is_sent_to_a_replica_in_its_rack() -> None:
    player = Player("")
    player.perform("given replicas=(A,B) A=a/0 B=a/0 hw=1 rack.A=east rack.B=west")
    player.perform("fetch B")
    assert player.perform("consume offset=0 rack=west") == (
        "consumer -> A fetch offset=0 | read from B",
    )
    assert player.perform("consume offset=0 rack=west from=B") == (
        "consumer -> B fetch offset=0 | records a/0 high-watermark=1",
    )


def test_leadership_goes_back_to_the_preferred_replica_by_itself() -> None:
    player = Player("")
    player.perform("given replicas=(A,B) leader=B A=a/0 B=a/0 hw=1")
    player.perform("fetch A")
    assert "controller: leader=A leader-epoch=1 isr=(A,B) partition-epoch=1" in player.perform(
        "advance 5min"
    )
