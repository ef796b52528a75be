"""What lies beside a checkpoint: whose it is, what a pipeline is called, what happened to it."""

import json

import pytest

from tidelog.spark.failure import TidelogError
from tidelog.spark.pipelines.events import EVENTS_FILE, EventLog
from tidelog.spark.pipelines.names import UsualName
from tidelog.spark.pipelines.running import noting_failure
from tidelog.spark.pipelines.state import PipelineState, described


def begun(state):
    """As Spark leaves it when the first batch is planned."""
    (state.directory / "checkpoint" / "offsets").mkdir(parents=True)
    (state.directory / "checkpoint" / "offsets" / "0").write_text(
        'v1\n{}\n{"orders":{"0":7,"1":9}}'
    )


def started(home, name, arguments, kind="archive"):
    with PipelineState(home / name) as state:
        state.begin(kind, arguments, spark="local[*]", group="g")
        begun(state)
    return state


ARGUMENTS = {"topics": ["a", "b"], "to": "/lake", "partition_by": ["date"], "schema": None}


def test_a_checkpoint_tells_what_differs_from_old_to_new_and_how_to_go_on(tmp_path):
    state = started(tmp_path, "mine", ARGUMENTS)
    other = {**ARGUMENTS, "topics": ["a"], "schema": "id INT", "partition_by": []}
    with pytest.raises(TidelogError) as refused:
        state.check("archive", other)
    assert refused.value.what == (
        "the checkpoint of mine belongs to other arguments: TOPIC… a,b → a, "
        "--partition-by date → none, --schema none → id INT"
    )
    assert refused.value.advice == (
        "start it as it was to go on with it; for the new one give another --name, or "
        f"remove {tmp_path / 'mine'} to begin anew"
    )
    with pytest.raises(TidelogError, match="of another kind: archive → mirror"):
        state.check("mirror", ARGUMENTS)
    state.check("archive", ARGUMENTS)


def test_without_a_batch_nothing_belongs_to_anybody(tmp_path):
    with PipelineState(tmp_path / "mine") as state:
        state.begin("archive", ARGUMENTS, spark="local[*]")
    state.check("mirror", {})


def test_two_tables_of_one_topic_have_two_names_and_an_old_name_is_found_again(tmp_path):
    one, other = (UsualName("archive", ("orders",), {"to": to}) for to in ("/lake/a", "/lake/b"))
    assert one.within(tmp_path) != other.within(tmp_path)
    assert one.within(tmp_path).startswith("archive-orders-")
    started(tmp_path, "archive-orders", {"topics": ["orders"], "to": "/lake/a"})
    assert one.within(tmp_path) == "archive-orders"
    assert other.within(tmp_path).startswith("archive-orders-")
    mirror = UsualName("mirror", ("orders",), {"to": "/lake/a"})
    started(tmp_path, "mirror-orders", {"to": "/lake/a"}, kind="archive")
    assert mirror.within(tmp_path) != "mirror-orders", "that one is of another kind"


def test_names_of_patterns_and_of_many_topics_are_names_of_directories(tmp_path):
    pattern = UsualName("archive", (r"(orders|pay\d+)/.*",), {"to": "/lake"}).within(tmp_path)
    assert "/" not in pattern
    many = [UsualName("archive", tuple("t" * 60 for _ in range(n)), {}).full for n in (8, 9)]
    assert max(map(len, many)) < 200
    assert many[0] != many[1]


def events(directory, name=EVENTS_FILE):
    return [json.loads(line) for line in (directory / name).read_text("utf-8").splitlines()]


def test_every_turn_of_a_pipeline_is_an_event(tmp_path):
    with PipelineState(tmp_path / "mine") as state:
        state.begin("archive", {}, spark="local[*]")
        with pytest.raises(TidelogError), noting_failure(state):
            raise TidelogError("it broke", "mend it")
    with PipelineState(tmp_path / "mine") as state:
        state.begin("archive", {}, spark="local[*]")
        state.turned("finished")
    told = events(tmp_path / "mine")
    assert [each["event"] for each in told] == ["started", "failed", "started", "finished"]
    assert told[1]["error"] == "it broke; mend it"
    assert all(each["at"].endswith("Z") and each["name"] == "mine" for each in told)
    progress = described(tmp_path / "mine")["progress"]
    assert (progress["restarts"], progress["failures"]) == (1, 1)


def test_events_do_not_grow_for_ever_and_the_newest_are_kept(tmp_path):
    log = EventLog(tmp_path, limit_bytes=1_000)
    for number in range(100):
        log.add("batch", {"number": number})
    assert log.path.stat().st_size <= 1_000
    before, now = events(tmp_path, f"{EVENTS_FILE}.1"), events(tmp_path)
    numbers = [each["number"] for each in (*before, *now)]
    assert numbers == list(range(numbers[0], 100))
    assert len(list(tmp_path.iterdir())) == 2


def test_an_event_that_is_larger_than_the_limit_is_kept_whole(tmp_path):
    log = EventLog(tmp_path, limit_bytes=10)
    log.add("batch", {"offsets": list(range(100))})
    assert events(tmp_path)[0]["offsets"] == list(range(100))


def test_the_offsets_of_the_last_batch_that_is_done_are_read_from_the_checkpoint(tmp_path):
    state = started(tmp_path, "mine", {})
    assert state.committed_offsets() == {}, "planned, and not done"
    (state.directory / "checkpoint" / "commits").mkdir()
    (state.directory / "checkpoint" / "commits" / "0").write_text("v1\n{}")
    assert state.committed_offsets() == {("orders", 0): 7, ("orders", 1): 9}
    (state.directory / "checkpoint" / "offsets" / "0").write_text("v1\n{}\n17")
    assert state.committed_offsets() == {}, "of another source"
