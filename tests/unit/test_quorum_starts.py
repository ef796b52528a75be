"""How soon a quorum that starts has a leader."""

from support.quorum_cluster import Cluster, key_of
from tidelog.core.errors import Error
from tidelog.core.quorum.effects import Send
from tidelog.core.quorum.messages import EndEpochRequest, VoteRequest, VoteResponse
from tidelog.core.quorum.node import QuorumNode

STAGGER_MS = 50
RETRY_MS = 20


def asked(effects: list[object]) -> list[tuple[int, VoteRequest]]:
    return [
        (effect.target, effect.message)
        for effect in effects
        if type(effect) is Send and type(effect.message) is VoteRequest
    ]


def campaigning() -> tuple[QuorumNode, int, VoteRequest]:
    """Voter 1 of three, alone, with the pre-vote it wants from 2."""
    cluster = Cluster((1, 2, 3))
    cluster.boot(1)
    node = cluster.node(1)
    now_ms = STAGGER_MS
    requests = dict(asked(node.tick(now_ms)))
    assert requests.keys() == {2, 3}
    return node, now_ms, requests[2]


def test_a_new_cluster_elects_its_first_leader_without_waiting_for_a_timeout() -> None:
    cluster = Cluster((1, 2, 3))
    cluster.boot()
    cluster.run(STAGGER_MS)
    assert cluster.leader() == 1
    assert cluster.roles() == {1: "leader", 2: "follower", 3: "follower"}


def test_if_the_first_voter_of_a_new_cluster_is_down_the_second_campaigns() -> None:
    cluster = Cluster((1, 2, 3))
    cluster.boot(2, 3)
    cluster.run(2 * STAGGER_MS)
    assert cluster.leader() == 2


def test_a_voter_that_was_not_listening_is_asked_again_until_it_does() -> None:
    node, now_ms, request = campaigning()
    for _ in range(5):
        assert node.on_send_failed(2, request, now_ms) == []
        assert node.next_deadline_ms == now_ms + RETRY_MS
        now_ms += RETRY_MS
        assert asked(node.tick(now_ms)) == [(2, request)], "and not 3, which has it"
    granted = VoteResponse(Error.NONE, 0, -1, True, True)
    votes = asked(node.on_message(2, granted, now_ms))
    assert node.role == "candidate"
    assert [vote.pre_vote for _, vote in votes] == [False, False]


def test_a_question_of_an_election_that_is_over_is_not_repeated() -> None:
    node, now_ms, request = campaigning()
    node.on_message(3, VoteResponse(Error.NONE, 0, -1, True, True), now_ms)
    assert node.role == "candidate"
    deadline_ms = node.next_deadline_ms
    node.on_send_failed(2, request, now_ms)
    assert node.next_deadline_ms == deadline_ms


def test_a_campaign_that_reaches_nobody_still_ends() -> None:
    node, now_ms, request = campaigning()
    while node.role == "prospective":
        node.on_send_failed(2, request, now_ms)
        now_ms = node.next_deadline_ms
        assert now_ms < 10_000
        node.tick(now_ms)
    assert node.role == "unattached"


def test_who_was_down_when_the_leader_resigned_hears_it_from_its_first_fetch() -> None:
    cluster = Cluster((1, 2, 3))
    cluster.boot()
    cluster.run(1000)
    assert cluster.leader() == 1
    for node_id in (1, 2, 3):
        cluster.crash(node_id)
    cluster.isolate(1)  # so that nobody hears its farewell
    cluster.boot(1)
    cluster.settle()
    assert len(cluster.sent(EndEpochRequest, source=1)) == 2
    cluster.heal()
    cluster.boot(2, 3)
    cluster.run(2 * STAGGER_MS)
    assert cluster.leader() == 2, "long before its fetch timeout"
    assert cluster.node(2).voters == (key_of(1), key_of(2), key_of(3))
