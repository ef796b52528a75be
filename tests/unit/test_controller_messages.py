"""What a broker and a controller say to each other, from values to bytes and back."""

import pytest

from tidelog.broker.control import controller_messages as messages
from tidelog.core.errors import Error
from tidelog.core.requests import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    IsrMember,
    IsrProposal,
    IsrResult,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
)
from tidelog.core.types import PartitionId
from tidelog.wire.protocol import Message, decode, encode
from tidelog.wire.protocol.schemas import alter_partition_response as altered
from tidelog.wire.protocol.schemas.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from tidelog.wire.protocol.schemas.broker_heartbeat_response import BrokerHeartbeatResponse
from tidelog.wire.protocol.schemas.broker_registration_response import BrokerRegistrationResponse
from tidelog.wire.protocol.schemas.create_topics_response import (
    CreatableTopicResult,
    CreateTopicsResponse,
)

A, B = b"a" * 16, b"b" * 16


def travelled(outgoing: messages.Outgoing) -> Message:
    """As the other side reads it."""
    message, version = outgoing
    return decode(type(message), version, encode(message, version))


def test_a_registration_carries_everything_the_controller_needs() -> None:
    request = RegisterBrokerRequest(
        7,
        "cluster",
        A,
        rack="r1",
        log_dirs=(A, B),
        previous_broker_epoch=99,
        endpoints=(("PLAIN", "one", 9092), ("SAFE", "two", 65_535)),
    )
    message = travelled(messages.lifecycle_message(request, {"SAFE": 3}))
    assert getattr(message, "broker_id", None) == 7
    said = messages.registration.BrokerRegistrationRequest(
        broker_id=7,
        cluster_id="cluster",
        incarnation_id=A,
        listeners=[
            messages.registration.Listener(name="PLAIN", host="one", port=9092),
            messages.registration.Listener(
                name="SAFE", host="two", port=65_535, security_protocol=3
            ),
        ],
        rack="r1",
        log_dirs=[A, B],
        previous_broker_epoch=99,
    )
    assert message == said


def test_a_heartbeat_carries_its_wishes() -> None:
    request = HeartbeatRequest(7, 42, 1000, want_fence=True, want_shut_down=True)
    message = travelled(messages.lifecycle_message(request, {}))
    assert message == messages.BrokerHeartbeatRequest(
        broker_id=7,
        broker_epoch=42,
        current_metadata_offset=1000,
        want_fence=True,
        want_shut_down=True,
    )


def test_answers_to_lifecycle_requests_become_core_values() -> None:
    registered = BrokerRegistrationResponse(error_code=0, broker_epoch=42)
    assert messages.lifecycle_response(registered) == RegisterBrokerResponse(Error.NONE, 42)
    beaten = BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False, should_shut_down=True)
    assert messages.lifecycle_response(beaten) == HeartbeatResponse(Error.NONE, True, False, True)


@pytest.mark.parametrize(
    "request_",
    [RegisterBrokerRequest(1, "c", A), HeartbeatRequest(1, 2, 3)],
)
def test_no_answer_is_a_refusal(request_: messages.LifecycleRequest) -> None:
    assert messages.not_answered(request_).error != Error.NONE


def test_a_code_of_another_release_is_an_error_and_not_a_crash() -> None:
    refused = BrokerRegistrationResponse(error_code=3000)
    assert messages.lifecycle_response(refused).error is Error.UNKNOWN_SERVER_ERROR


def test_proposals_are_grouped_by_topic_and_keep_their_broker_epochs() -> None:
    def proposal(topic_id: bytes, partition: int) -> IsrProposal:
        members = (IsrMember(1, 10), IsrMember(2, -1))
        return IsrProposal(PartitionId(topic_id, partition), 5, 6, members, 1)

    request = AlterPartitionRequest(1, 10, (proposal(A, 0), proposal(B, 3), proposal(A, 2)))
    message = travelled(messages.alter_partition_message(request))
    assert isinstance(message, messages.alter.AlterPartitionRequest)
    assert [
        (topic.topic_id, [each.partition_index for each in topic.partitions])
        for topic in message.topics
    ] == [(A, [0, 2]), (B, [3])]
    first = message.topics[0].partitions[0]
    assert (first.leader_epoch, first.partition_epoch, first.leader_recovery_state) == (5, 6, 1)
    assert [(each.broker_id, each.broker_epoch) for each in first.new_isr_with_epochs] == [
        (1, 10),
        (2, -1),
    ]


def test_results_of_proposals_become_core_values() -> None:
    partition = altered.PartitionData(
        partition_index=2,
        error_code=74,
        leader_id=3,
        leader_epoch=7,
        isr=[3, 1],
        leader_recovery_state=1,
        partition_epoch=9,
    )
    answer = altered.AlterPartitionResponse(
        topics=[altered.TopicData(topic_id=A, partitions=[partition])]
    )
    expected = IsrResult(PartitionId(A, 2), Error.FENCED_LEADER_EPOCH, 3, 7, (3, 1), 1, 9)
    assert messages.alter_partition_response(answer) == AlterPartitionResponse(
        Error.NONE, (expected,)
    )


def reassigned(top: int, *codes: int) -> AlterPartitionReassignmentsResponse:
    partitions = [
        ReassignablePartitionResponse(partition_index=n, error_code=code)
        for n, code in enumerate(codes)
    ]
    return AlterPartitionReassignmentsResponse(
        error_code=top, responses=[ReassignableTopicResponse(name="t", partitions=partitions)]
    )


def created(*codes: int) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=[CreatableTopicResult(name="t", error_code=code) for code in codes]
    )


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (created(), False),
        (created(0), False),
        (created(41, 41), True),
        (created(41, 0), False),
        (reassigned(41), True),
        (reassigned(0), False),
        (reassigned(0, 41, 41), True),
        (reassigned(0, 41, 0), False),
        (reassigned(41, 0), True),
        (BrokerHeartbeatResponse(error_code=41), True),
        (BrokerHeartbeatResponse(error_code=77), False),
    ],
)
def test_only_who_did_nothing_at_all_is_asked_again(answer: Message, expected: bool) -> None:
    assert messages.was_not_controller(answer) is expected
