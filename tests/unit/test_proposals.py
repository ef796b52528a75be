"""AlterPartition: one request in flight, repeated until the controller has decided."""

import pytest

from tidelog.core.errors import Error
from tidelog.core.replication.proposals import IsrProposals
from tidelog.core.requests import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    IsrMember,
    IsrProposal,
    IsrResult,
)
from tidelog.core.types import PartitionId

ORDERS, USERS = PartitionId(b"orders", 0), PartitionId(b"users", 0)


def proposal(partition: PartitionId, *isr: int, partition_epoch: int = 0) -> IsrProposal:
    members = tuple(IsrMember(broker, 100 + broker) for broker in isr)
    return IsrProposal(partition, 0, partition_epoch, members)


def answered(*results: IsrResult, error: Error = Error.NONE) -> AlterPartitionResponse:
    return AlterPartitionResponse(error, results)


def adopted(partition: PartitionId) -> IsrResult:
    return IsrResult(partition, Error.NONE, 1, 0, (1, 2), 0, 1)


def sent(proposals: IsrProposals, now_ms: int = 0) -> AlterPartitionRequest:
    request = proposals.next_request(1, 101, now_ms)
    assert request is not None
    return request


def waiting(*added: IsrProposal) -> IsrProposals:
    proposals = IsrProposals()
    for one in added:
        proposals.add(one)
    return proposals


def test_nothing_to_say_sends_nothing() -> None:
    assert IsrProposals().next_request(1, 101, 0) is None


def test_all_waiting_proposals_travel_together_and_one_request_at_a_time() -> None:
    orders, users = proposal(ORDERS, 1, 2), proposal(USERS, 1)
    proposals = waiting(orders, users)
    request = sent(proposals)
    assert request == AlterPartitionRequest(1, 101, (orders, users))
    proposals.add(proposal(PartitionId(b"later", 0), 1))
    assert proposals.next_request(1, 101, 0) is None
    results = [adopted(ORDERS), adopted(USERS)]
    assert proposals.on_response(request, answered(*results), 5) == results
    assert len(sent(proposals, 5).proposals) == 1


def test_a_failed_request_is_repeated_after_a_while_with_the_current_broker_epoch() -> None:
    orders = proposal(ORDERS, 1, 2)
    proposals = waiting(orders)
    request = sent(proposals)
    refused = answered(error=Error.STALE_BROKER_EPOCH)
    assert proposals.on_response(request, refused, 100) == []
    assert proposals.retry_at_ms == 150
    assert proposals.next_request(1, 101, 149) is None
    assert proposals.next_request(1, 201, 150) == AlterPartitionRequest(1, 201, (orders,))


def test_an_unanswered_request_is_repeated() -> None:
    proposals = waiting(proposal(ORDERS, 1, 2))
    first = sent(proposals)
    proposals.on_failure(first, 0)
    second = sent(proposals, 50)
    assert second == first
    assert len(proposals) == 1


def test_an_answer_to_an_earlier_sending_says_nothing_about_the_later_one() -> None:
    """The late refusal may be true for the first sending and not for the second."""
    proposals = waiting(proposal(ORDERS, 1, 2))
    first = sent(proposals)
    proposals.on_failure(first, 0)
    second = sent(proposals, 50)
    late = IsrResult(ORDERS, Error.INELIGIBLE_REPLICA)
    assert proposals.on_response(first, answered(late), 60) == []
    proposals.on_failure(first, 60)
    assert proposals.next_request(1, 101, 10_000) is None
    assert proposals.on_response(second, answered(adopted(ORDERS)), 70) == [adopted(ORDERS)]
    assert proposals.on_response(second, answered(adopted(ORDERS)), 80) == []


@pytest.mark.parametrize(
    "error",
    [Error.NOT_CONTROLLER, Error.STALE_BROKER_EPOCH, Error.UNKNOWN_SERVER_ERROR],
)
def test_a_partition_the_controller_could_not_judge_is_asked_for_again(error: Error) -> None:
    orders, users = proposal(ORDERS, 1, 2), proposal(USERS, 1, 2)
    proposals = waiting(orders, users)
    request = sent(proposals)
    response = answered(IsrResult(ORDERS, error), adopted(USERS))
    assert proposals.on_response(request, response, 0) == [adopted(USERS)]
    assert sent(proposals, 50).proposals == (orders,)


def test_a_partition_missing_in_the_answer_is_asked_for_again() -> None:
    orders = proposal(ORDERS, 1, 2)
    proposals = waiting(orders)
    assert proposals.on_response(sent(proposals), answered(), 0) == []
    assert sent(proposals, 50).proposals == (orders,)


@pytest.mark.parametrize(
    "error",
    [
        Error.INELIGIBLE_REPLICA,
        Error.OPERATION_NOT_ATTEMPTED,
        Error.FENCED_LEADER_EPOCH,
        Error.INVALID_UPDATE_VERSION,
        Error.INVALID_REQUEST,
        Error.UNKNOWN_TOPIC_ID,
        Error.UNKNOWN_TOPIC_OR_PARTITION,
        Error.NEW_LEADER_ELECTED,
    ],
)
def test_decided_proposals_are_handed_to_their_leader(error: Error) -> None:
    proposals = waiting(proposal(ORDERS, 1, 2))
    decided = IsrResult(ORDERS, error)
    assert proposals.on_response(sent(proposals), answered(decided), 0) == [decided]
    assert len(proposals) == 0


def test_a_proposal_that_metadata_has_overtaken_is_forgotten_with_its_answer() -> None:
    proposals = waiting(proposal(ORDERS, 1, 2))
    request = sent(proposals)
    newer = proposal(ORDERS, 1, partition_epoch=3)
    proposals.add(newer)
    refused = IsrResult(ORDERS, Error.INELIGIBLE_REPLICA)
    assert proposals.on_response(request, answered(refused), 0) == []
    assert sent(proposals).proposals == (newer,)


def test_a_repeat_does_not_displace_a_newer_proposal() -> None:
    proposals = waiting(proposal(ORDERS, 1, 2))
    request = sent(proposals)
    newer = proposal(ORDERS, 1, partition_epoch=3)
    proposals.add(newer)
    proposals.on_failure(request, 0)
    assert sent(proposals, 50).proposals == (newer,)


def test_a_broker_that_no_longer_leads_withdraws() -> None:
    proposals = waiting(proposal(ORDERS, 1, 2), proposal(USERS, 1))
    proposals.withdraw(ORDERS)
    proposals.withdraw(ORDERS)
    assert [one.partition for one in sent(proposals).proposals] == [USERS]
