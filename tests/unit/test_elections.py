"""Who leads next."""

from hypothesis import given
from hypothesis import strategies as st

from tidelog.core.metadata.elections import (
    NOBODY,
    Ballot,
    Elected,
    Election,
    elect,
    holds_all_committed,
)
from tidelog.core.types import NO_LEADER


def ballot(
    replicas: tuple[int, ...] = (1, 2, 3),
    isr: tuple[int, ...] = (1, 2, 3),
    elr: tuple[int, ...] = (),
    *,
    leader: int = NO_LEADER,
    alive: tuple[int, ...] = (1, 2, 3),
    last_known: tuple[int, ...] = (),
    elr_enabled: bool = True,
    unclean_allowed: bool = False,
) -> Ballot:
    return Ballot(
        replicas, isr, elr, leader, last_known, elr_enabled, unclean_allowed, alive.__contains__
    )


def clean(leader: int) -> Elected:
    return Elected(leader, unclean=False)


def unclean(leader: int) -> Elected:
    return Elected(leader, unclean=True)


def test_an_online_election_keeps_the_leader_that_it_has() -> None:
    assert elect(ballot(leader=3), Election.ONLINE) == clean(3)


def test_a_preferred_election_moves_to_the_first_replica() -> None:
    assert elect(ballot(leader=3), Election.PREFERRED) == clean(1)


def test_a_preferred_replica_that_cannot_lead_costs_nobody_leadership() -> None:
    assert elect(ballot(isr=(2, 3), leader=3), Election.PREFERRED) == clean(3)
    assert elect(ballot(leader=3, alive=(2, 3)), Election.PREFERRED) == clean(3)


def test_the_first_in_sync_replica_in_assignment_order_takes_over() -> None:
    assert elect(ballot((3, 1, 2), isr=(2, 1), leader=3), Election.ONLINE) == clean(1)
    assert elect(ballot((3, 1, 2), isr=(2, 1), leader=3, alive=(2, 3)), Election.ONLINE) == clean(2)


def test_the_elr_is_asked_only_when_the_isr_is_empty() -> None:
    assert elect(ballot(isr=(), elr=(2, 3)), Election.ONLINE) == clean(2)
    # 1 is in sync but away: it holds more than anybody, so it is waited for.
    assert elect(ballot(isr=(1,), elr=(2, 3), alive=(2, 3)), Election.ONLINE) == NOBODY


def test_nobody_outside_isr_and_elr_leads_unless_that_is_allowed() -> None:
    away = ballot(isr=(1,), alive=(2, 3))
    assert elect(away, Election.ONLINE) == NOBODY
    assert elect(away, Election.PREFERRED) == NOBODY
    assert elect(away, Election.UNCLEAN) == unclean(2)
    assert elect(away._replace(unclean_allowed=True), Election.ONLINE) == unclean(2)
    # Balance is a matter of comfort: it never justifies losing records.
    assert elect(away._replace(unclean_allowed=True), Election.PREFERRED) == NOBODY


def test_an_unclean_election_still_prefers_a_clean_leader() -> None:
    assert elect(ballot(isr=(3,)), Election.UNCLEAN) == clean(3)
    assert elect(ballot(isr=(), elr=(3,)), Election.UNCLEAN) == clean(3)


def test_the_last_known_leader_returns_when_nobody_else_can_be_waited_for() -> None:
    alone = ballot(isr=(), last_known=(3,))
    assert elect(alone, Election.ONLINE) == unclean(3)
    assert elect(alone, Election.PREFERRED) == unclean(3)
    assert elect(alone, Election.UNCLEAN) == unclean(3)


def test_the_last_known_leader_waits_while_an_eligible_replica_may_return() -> None:
    assert elect(ballot(isr=(), elr=(2,), last_known=(3,), alive=(3,)), Election.ONLINE) == NOBODY
    assert elect(ballot(isr=(2,), last_known=(3,), alive=(3,)), Election.ONLINE) == NOBODY


def test_the_last_known_leader_must_be_one_and_there_and_a_replica() -> None:
    for refused in (
        ballot(isr=(), last_known=(3,), elr_enabled=False),
        ballot(isr=(), last_known=(3,), alive=(1, 2)),
        ballot(isr=(), last_known=(2, 3)),
        ballot(isr=(), last_known=(9,), alive=(9,)),
    ):
        assert elect(refused, Election.ONLINE) == NOBODY


def test_a_leader_that_is_no_replica_any_more_cannot_stay() -> None:
    assert elect(ballot((1, 2), isr=(1, 2), leader=4, alive=(1, 2, 4)), Election.ONLINE) == clean(1)


members = st.sampled_from([(), (1,), (2,), (3,), (1, 2), (2, 3), (3, 1), (1, 2, 3)])


ballots = st.builds(
    ballot,
    st.permutations([1, 2, 3]).map(tuple),
    members,
    members,
    leader=st.sampled_from([NO_LEADER, 1, 2, 3]),
    alive=members,
    last_known=members,
    elr_enabled=st.booleans(),
    unclean_allowed=st.booleans(),
)


@given(ballots, st.sampled_from(Election))
def test_a_clean_leader_is_always_one_that_holds_everything(drawn: Ballot, mode: Election) -> None:
    elected = elect(drawn, mode)
    alive = [broker for broker in drawn.replicas if drawn.is_acceptable(broker)]
    could_be_clean = [b for b in alive if holds_all_committed(b, drawn.isr, drawn.elr)]
    if elected.leader == NO_LEADER:
        assert not could_be_clean
        assert not elected.unclean
    elif elected.unclean:
        assert not could_be_clean
        assert elected.leader in alive
        permitted = drawn.unclean_allowed and mode == Election.ONLINE
        permitted = permitted or mode == Election.UNCLEAN
        assert permitted or drawn.last_known_elr == (elected.leader,)
    else:
        assert elected.leader in could_be_clean
        stays = drawn.leader in could_be_clean and mode != Election.PREFERRED
        assert not stays or elected.leader == drawn.leader
