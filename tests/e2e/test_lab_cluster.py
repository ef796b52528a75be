"""Stories of the lab on a real cluster, one released fetch after the other."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tidelog import lab
from tidelog.cluster import state as states
from tidelog.cluster.faults import ControlFailed
from tidelog.cluster.lab import ask_lab
from tidelog.cluster.nodes import LocalNodes
from tidelog.console.app import build
from tidelog.console.place import Place
from tidelog.lab.live_play import LivePlay
from tidelog.lab.play import PlayError

GUARD_S = 240
KNOWN: dict[Path, LocalNodes] = {}
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def tidelog(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tidelog", *arguments],
        cwd=directory,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=GUARD_S,
        check=False,
    )


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory in which a lab runs."""
    directory = tmp_path_factory.mktemp("lab")
    try:
        up = tidelog(directory, "up", "--lab", "--detach", "--port", "0", "--timeout", "120s")
        assert up.returncode == 0, up.stderr
        yield directory
    finally:
        tidelog(directory, "down")
        nodes = KNOWN.pop(directory, None)
        if nodes is not None:
            nodes.close()  # a story may have started brokers again: children of this process


def nodes_of(here: Path) -> LocalNodes:
    directory = here / ".tidelog" / "dev"
    state = states.load(directory)
    assert state is not None
    nodes = KNOWN.setdefault(here, LocalNodes(directory, state))
    nodes.state = state
    return nodes


@pytest.mark.parametrize("name", ["replicas-and-isr", "leader-fails"])
def test_a_story_comes_out_on_a_cluster_as_on_the_simulator(here: Path, name: str) -> None:
    told = tidelog(here, "lab", "run", name, "--on", "cluster")
    assert told.returncode == 0, told.stdout + told.stderr
    assert told.stdout.startswith(lab.find(name).title)
    assert "✗" not in told.stdout
    assert "what you saw:" in told.stdout


def test_a_story_that_needs_the_simulator_says_so(here: Path) -> None:
    told = tidelog(here, "lab", "run", "rejoin", "--on", "cluster")
    assert told.returncode == 1
    assert "rejoin plays only on the simulator: its scene begins in the middle" in told.stderr
    assert "try: tidelog lab run rejoin" in told.stderr


def test_whatever_differs_from_the_simulator_is_told(here: Path) -> None:
    nodes = nodes_of(here)
    play = LivePlay(nodes, lab.find("fetch-is-the-ack"), 2, patience_s=GUARD_S)
    try:
        assert play.problems == []
        # Somebody else releases the fetch that the third step is about.
        play._live.fetch(2)
        play._live.patience_s = 1
        play.forward()
        (problem,) = play.problems
        assert problem.startswith("messages: told ['2 -> 1 Fetch offset 0, last epoch none'")
        assert play.document()["error"] == problem
    finally:
        play.close()


def test_the_console_plays_on_the_cluster_and_cannot_go_back(here: Path) -> None:
    nodes = nodes_of(here)
    place = Place("dev", nodes.state.bootstrap_servers, nodes=nodes)
    app = build(place, loopback=True)
    with TestClient(app, base_url="http://127.0.0.1") as console:
        session = console.get("/api/session").json()
        assert session["lab"] == "cluster"
        console.headers["X-Tidelog-Csrf"] = session["csrf"]
        listed = console.get("/api/lab").json()
        assert listed["on"] == ["sim", "cluster"]
        where = {story["name"]: story["on"] for story in listed["stories"]}
        assert where["reconcile"] == ["sim", "cluster"]
        assert where["rejoin"] == ["sim"]
        wanted = {"story": "fetch-is-the-ack", "on": "cluster", "step": 2}
        play = console.post("/api/lab/plays", json=wanted).json()
        assert (play["on"], play["partition"]["mode"]) == ("cluster", "live")
        here_url = f"/api/lab/plays/{play['id']}"
        stepped = console.post(f"{here_url}/step", json={}).json()
        assert stepped["error"] is None
        assert [replica["log_end"] for replica in stepped["partition"]["replica_logs"]] == [1, 1, 0]
        free = console.post(f"{here_url}/perform", json={"command": "fetch 3"}).json()
        assert free["partition"]["replica_logs"][2]["log_end"] == 1
        offered = [offer["text"] for offer in free["commands"]]
        assert "crash 1" in offered
        assert "pause 1" not in offered
        leads = console.post(f"{here_url}/perform", json={"command": "fetch 1"}).json()
        assert leads["revealed"][-1]["lines"] == ["1: does not follow: it leads"]
        refused = console.post(f"{here_url}/back", json={})
        assert refused.status_code == 400
        assert refused.json()["error"] == "a real cluster cannot go back"
        wrong = console.post(f"{here_url}/perform", json={"command": "wipe 3"})
        assert "wipe cannot be done to a real cluster" in wrong.json()["error"]


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        ({"release": {"from": 2, "to": 1}}, "this is node 1: it holds its own fetches"),
        ({"release": {"to": "one"}}, "to has to be a number"),
        ({"release": {"to": 2, "count": 1000}}, "count has to be a number from 0 to 100"),
        ({"release": {"to": 2, "keep_answer": "yes"}}, "keep_answer has to be true or false"),
        ({"open": True}, "the body has to be like"),
        ([], "the body has to be like"),
    ],
)
def test_an_order_that_makes_no_sense_is_refused(here: Path, order: object, reason: str) -> None:
    with pytest.raises(ControlFailed, match=reason):
        ask_lab(nodes_of(here), 1, "POST", order)


def test_the_cluster_replicates_by_itself_when_its_gates_are_opened(here: Path) -> None:
    nodes = nodes_of(here)
    try:
        for node in (1, 2, 3):
            assert ask_lab(nodes, node, "DELETE")["closed"] is False
        created = tidelog(here, "topic", "create", "open", "-p", "1")
        assert created.returncode == 0, created.stderr
        produced = tidelog(here, "produce", "open", "--value", "by itself")
        assert produced.returncode == 0, produced.stderr
    finally:
        for node in (1, 2, 3):
            assert ask_lab(nodes, node, "POST", {"close": True})["closed"] is True


def test_one_cluster_is_not_in_two_states(here: Path) -> None:
    play = LivePlay(nodes_of(here), lab.find("high-watermark"))
    try:
        with pytest.raises(PlayError, match="cannot be in two states"):
            play.fork()
    finally:
        play.close()
