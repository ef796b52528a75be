"""The lab over HTTP, as the pages of the console use it."""

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from tidelog.console.app import build
from tidelog.console.place import simulator
from tidelog.lab import stories


@pytest.fixture(scope="module")
def console() -> Iterator[TestClient]:
    app = build(simulator(), loopback=True)
    with TestClient(app, base_url="http://127.0.0.1") as client:
        session = client.get("/api/session").json()
        assert (session["mode"], session["lab"]) == ("sim", "sim")
        client.headers["X-Tidelog-Csrf"] = session["csrf"]
        yield client


def test_all_stories_are_there_with_their_steps(console: TestClient) -> None:
    listed = console.get("/api/lab").json()
    assert listed["on"] == ["sim"]
    assert [story["name"] for story in listed["stories"]] == [story.name for story in stories()]
    assert all(story["steps"] > 2 and story["question_count"] > 1 for story in listed["stories"])


def test_a_play_goes_forth_and_back_and_splits(console: TestClient) -> None:
    begun = console.post("/api/lab/plays", json={"story": "reconcile", "step": 3})
    assert begun.status_code == 201
    play = begun.json()
    here = f"/api/lab/plays/{play['id']}"
    assert (play["step"], play["steps"], play["link"]) == (3, 8, "/lab/reconcile?step=3")
    assert play["next_question"] == "What will 103 answer?"
    stepped = console.post(f"{here}/step", json={}).json()
    assert stepped["revealed"] == [
        {
            "command": "fetch 102",
            "lines": [
                "102 -> 103 fetch offset=6 last-epoch=0 | diverging epoch=0 end-offset=5"
                " | 102: truncate 6 -> 5"
            ],
            "ok": True,
            "free": False,
        }
    ]
    assert console.post(f"{here}/back", json={}).json() == play
    other = console.post(f"{here}/fork", json={}).json()
    assert {**other, "id": play["id"]} == play
    over = console.post(f"/api/lab/plays/{other['id']}/goto", json={"step": 8}).json()
    assert (over["over"], over["next_sentence"]) == (True, None)
    free = console.post(f"/api/lab/plays/{other['id']}/perform", json={"command": "kill 103"})
    assert free.json()["partition"]["leader"] == 101
    assert console.get(here).json() == play
    assert console.delete(here).json() == {"id": play["id"]}
    assert console.get(here).status_code == 404


def test_a_story_of_the_quorum_shows_its_nodes(console: TestClient) -> None:
    play = console.post("/api/lab/plays", json={"story": "controller-failover", "step": 2}).json()
    assert play["partition"] is None
    assert play["quorum"]["leader"] == 1
    assert [node["role"] for node in play["quorum"]["nodes"]] == ["leader", "follower", "follower"]
    assert [row["name"] for row in play["quorum"]["partitions"]] == ["orders-0"]


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        ({"story": "reconcil"}, 404, "no story 'reconcil'"),
        ({"story": 7}, 400, "story has to be a text"),
        ({"story": "reconcile", "step": "three"}, 400, "step has to be a whole number"),
        ({"story": "reconcile", "step": 99}, 400, "there is no step 99"),
        ({"story": "reconcile", "on": "the moon"}, 400, "there is no the moon to play on"),
        ({"story": "reconcile", "on": "cluster"}, 400, "this cluster is no lab"),
        ([], 400, "a JSON object"),
    ],
)
def test_what_cannot_be_played_is_refused(
    console: TestClient, body: object, status: int, error: str
) -> None:
    answer = console.post("/api/lab/plays", json=body)
    assert answer.status_code == status
    assert error in answer.json()["error"]


def test_a_bad_command_is_answered_in_the_words_of_the_script(console: TestClient) -> None:
    play = console.post("/api/lab/plays", json={"story": "high-watermark", "step": 1}).json()
    here = f"/api/lab/plays/{play['id']}"
    answer = console.post(f"{here}/perform", json={"command": "fetch 9"})
    assert answer.status_code == 400
    assert answer.json() == {
        "error": "fetch: there is no broker 9: the story has 1, 2, 3; "
        "usage: fetch BROKER [times=N] [max=RECORDS]",
        "try": "for example: produce g acks=all",
    }
    assert console.get(here).json() == play


def test_a_change_needs_the_header_of_the_session(console: TestClient) -> None:
    answer = console.post(
        "/api/lab/plays", json={"story": "reconcile"}, headers={"X-Tidelog-Csrf": "guess"}
    )
    assert answer.status_code == 403


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("/api/lab/seed/seven", "a seed is a number"),
        ("/api/lab/seed/99999999999999999999999", "a seed is a number"),
        ("/api/lab/seed/7?mutant=../../etc", "no name of a mutant"),
    ],
)
def test_what_is_no_seed_is_refused(console: TestClient, path: str, error: str) -> None:
    answer = console.get(path)
    assert answer.status_code == 400
    assert error in answer.json()["error"]


def test_a_seed_that_cannot_be_run_is_answered_in_the_words_of_the_command(
    console: TestClient,
) -> None:
    answer = console.get("/api/lab/seed/7?mutant=nobody")
    assert answer.status_code == 400
    assert answer.json()["error"].startswith('no mutant "nobody"')
    assert answer.json()["try"] == "tidelog sim mutants --help"
