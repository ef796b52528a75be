"""The runner of comparisons: who is measured when, and what is kept when something fails."""

from collections.abc import Mapping
from typing import NamedTuple

from tidelog.bench.compare.runner import Step, chosen, run
from tidelog.bench.compare.system import MACHINE, PartlyFailed, Row, Running, Section, System


class NeverStarted(NamedTuple):
    """A system of which only the name is needed."""

    name: str

    def start(self, nodes: int = 3, settings: Mapping[str, str] | None = None) -> Running:
        raise AssertionError("nobody asked for it")

    def facts(self) -> Mapping[str, str]:
        return {}


class Scripted(NamedTuple):
    """A section that answers what it was given: by row, by system, by round."""

    name: str
    answers: Mapping[str, Mapping[str, list[float | str]]]
    wanted: frozenset[str] | None = None

    @property
    def rows(self) -> tuple[Row, ...]:
        keys = [key for key in self.answers if self.wanted is None or key in self.wanted]
        return tuple(Row(key, key, "records/s", True, self.name) for key in keys)

    def only(self, keys: frozenset[str]) -> Section:
        return self._replace(wanted=keys)

    def measure(self, system: System, round_number: int) -> Mapping[str, float]:
        values, reasons = {}, {}
        for row in self.rows:
            answer = self.answers[row.key][system.name][round_number]
            if isinstance(answer, str):
                reasons[row.key] = answer
            else:
                values[row.key] = answer
        if reasons:
            raise PartlyFailed(values, reasons)
        return values


class Broken(NamedTuple):
    name: str = "broken"
    rows: tuple[Row, ...] = (Row("broken.x", "x", "s", False, "broken"),)

    def measure(self, system: System, round_number: int) -> Mapping[str, float]:
        raise OSError("no space left")


class Bare(NamedTuple):
    name: str = "limit"
    rows: tuple[Row, ...] = (Row("limit.bytes", "bytes", "MB/s", True, "limit"),)

    def measure_machine(self, round_number: int) -> Mapping[str, float]:
        return {"limit.bytes": 100.0 + round_number}


A, B = NeverStarted("tidelog"), NeverStarted("kafka")
FAST = Scripted(
    "fast",
    {
        "fast.one": {"tidelog": [10.0, 12.0], "kafka": [5.0, 6.0]},
        "fast.two": {"tidelog": [1.0, 2.0], "kafka": [4.0, 4.0]},
    },
)


def test_systems_alternate_within_every_round():
    steps: list[Step] = []
    run([FAST], [A, B], 2, steps.append)
    assert [(step.system, step.round_number) for step in steps] == [
        ("tidelog", 0),
        ("kafka", 0),
        ("tidelog", 1),
        ("kafka", 1),
    ]


def test_every_value_is_kept_with_its_round():
    results = run([FAST], [A, B], 2, lambda _: None)
    assert results.values.of("fast.one", "tidelog") == [10.0, 12.0]
    assert results.values.of("fast.two", "kafka") == [4.0, 4.0]
    assert results.is_complete


def test_a_section_that_fails_is_told_of_and_the_others_go_on():
    results = run([Broken(), FAST], [A], 1, lambda _: None)
    (failure,) = results.failures
    assert (failure.section, failure.system, failure.row) == ("broken", "tidelog", None)
    assert failure.reason == "OSError: no space left"
    assert results.values.of("fast.one", "tidelog") == [10.0]
    assert not results.is_complete


def test_a_row_that_fails_does_not_take_its_section_along():
    section = Scripted("s", {"s.a": {"tidelog": ["it hung"]}, "s.b": {"tidelog": [3.0]}})
    results = run([section], [A], 1, lambda _: None)
    assert [(each.row, each.reason) for each in results.failures] == [("s.a", "it hung")]
    assert results.values.of("s.a", "tidelog") == [None]
    assert results.values.of("s.b", "tidelog") == [3.0]


def test_the_machine_itself_is_measured_once_in_a_round():
    results = run([Bare()], [A, B], 2, lambda _: None)
    assert results.values.of("limit.bytes", MACHINE) == [100.0, 101.0]
    assert results.values.systems("limit.bytes") == [MACHINE]


def test_sections_are_chosen_by_name_and_narrowed_by_row():
    everything = [FAST, Broken(), Bare()]
    assert [each.name for each in chosen(everything, None)] == ["fast", "broken", "limit"]
    assert [each.name for each in chosen(everything, "^broken$")] == ["broken"]
    (narrowed,) = chosen(everything, r"\.two")
    assert [row.key for row in narrowed.rows] == ["fast.two"]
    assert chosen(everything, "nothing like it") == []


def test_a_chosen_row_brings_the_limit_that_it_is_set_against():
    class Limited(NamedTuple):
        name: str = "limited"
        rows: tuple[Row, ...] = (Row("x", "x", "MB/s", True, "limited", "limit.bytes"),)

        def measure(self, system: System, round_number: int) -> Mapping[str, float]:
            return {"x": 1.0}

    found = chosen([FAST, Limited(), Bare()], "^x$")
    assert [each.name for each in found] == ["limited", "limit"]


class Slow(NamedTuple):
    rounds_max: int | None
    name: str = "slow"
    rows: tuple[Row, ...] = (Row("slow.x", "x", "s", False, "slow"),)

    def measure(self, system: System, round_number: int) -> Mapping[str, float]:
        return {"slow.x": 1.0 + round_number}


def test_a_section_that_takes_long_is_measured_in_fewer_rounds() -> None:
    results = run([Slow(2)], [NeverStarted("tidelog")], 4, lambda _: None)
    assert results.values.of("slow.x", "tidelog") == [1.0, 2.0, None, None]
    assert results.is_complete


def test_a_section_that_says_nothing_of_rounds_is_measured_in_all() -> None:
    results = run([Slow(None)], [NeverStarted("tidelog")], 3, lambda _: None)
    assert results.values.of("slow.x", "tidelog") == [1.0, 2.0, 3.0]
