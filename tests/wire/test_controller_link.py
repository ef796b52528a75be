"""A broker and its controller over TCP: registration, heartbeats, in-sync sets, forwarding."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from support.lone_broker import LoneBroker, lone_broker
from support.loopback import run
from support.scripted_controller import (
    ALLOCATE,
    ALTER_PARTITION,
    BROKER_EPOCH,
    CREATE_TOPICS,
    HEARTBEAT,
    REGISTRATION,
    ScriptedController,
    hang_up,
    scripted_controller,
    silence,
)
from tidelog.broker.control.registering import SeatTaken
from tidelog.broker.transactions.producer_ids import NoProducerIds
from tidelog.core.metadata.lifecycle import RUNNING
from tidelog.host.ports import NetworkError
from tidelog.rpc import Call
from tidelog.wire.protocol.schemas.allocate_producer_ids_response import (
    AllocateProducerIdsResponse,
)
from tidelog.wire.protocol.schemas.alter_partition_request import AlterPartitionRequest
from tidelog.wire.protocol.schemas.alter_partition_response import (
    AlterPartitionResponse,
    PartitionData,
    TopicData,
)
from tidelog.wire.protocol.schemas.broker_heartbeat_response import BrokerHeartbeatResponse
from tidelog.wire.protocol.schemas.broker_registration_response import BrokerRegistrationResponse
from tidelog.wire.protocol.schemas.create_topics_request import CreatableTopic, CreateTopicsRequest
from tidelog.wire.protocol.schemas.create_topics_response import (
    CreatableTopicResult,
    CreateTopicsResponse,
)

NOT_CONTROLLER = 41
STALE_BROKER_EPOCH = 77
DUPLICATE = 101
FENCED = BrokerHeartbeatResponse(is_caught_up=False, is_fenced=True)
TOPIC = "orders"

Story = Callable[[LoneBroker, ScriptedController], Awaitable[None]]


def told(data: Path, story: Story, *, serving: bool = False) -> None:
    async def main() -> None:
        async with (
            scripted_controller() as controller,
            lone_broker(data, (), serving=serving, voters=f"9@127.0.0.1:{controller.port}") as lone,
        ):
            await story(lone, controller)

    run(main)


async def running(lone: LoneBroker) -> None:
    lone.broker.link.poke()
    await lone.until(lambda: lone.broker.link.lifecycle.state == RUNNING)


# ---- lifecycle


def test_a_broker_registers_catches_up_and_serves(tmp_path: Path) -> None:
    async def story(lone: LoneBroker, controller: ScriptedController) -> None:
        controller.says(HEARTBEAT, FENCED, FENCED)
        lone.broker.metadata.offset = 77
        await running(lone)
        (registration,) = controller.registrations()
        assert (registration.broker_id, registration.cluster_id) == (1, "story")
        assert registration.previous_broker_epoch == -1
        assert len(registration.incarnation_id) == 16
        (listener,) = registration.listeners
        assert (listener.name, listener.host, listener.port) == ("PLAINTEXT", "127.0.0.1", 9092)
        assert [each.want_fence for each in controller.heartbeats()[:4]] == [True] * 3 + [False]
        assert {each.current_metadata_offset for each in controller.heartbeats()} == {76}
        assert {each.broker_epoch for each in controller.heartbeats()} == {BROKER_EPOCH}
        assert lone.broker.metadata.serving
        assert lone.broker.link.broker_epoch == BROKER_EPOCH

    told(tmp_path, story)


def test_heartbeats_keep_one_connection_for_life(tmp_path: Path) -> None:
    async def story(lone: LoneBroker, controller: ScriptedController) -> None:
        await running(lone)
        await lone.until(lambda: len(controller.heartbeats()) >= 8, step_ms=100)
        assert len(controller.connections(REGISTRATION, HEARTBEAT)) == 1
        assert controller.closed == []

    told(tmp_path, story)


@pytest.mark.parametrize("failure", ["refusal", "silence", "hang-up"])
def test_what_the_controller_does_not_answer_is_said_again(tmp_path: Path, failure: str) -> None:
    reply = {
        "refusal": BrokerRegistrationResponse(error_code=NOT_CONTROLLER),
        "silence": silence,
        "hang-up": hang_up,
    }[failure]

    async def story(lone: LoneBroker, controller: ScriptedController) -> None:
        controller.says(REGISTRATION, reply)
        await running(lone)
        first, second = controller.registrations()
        assert first == second

    told(tmp_path, story)


def test_without_a_known_leader_one_voter_after_the_other_is_asked(tmp_path: Path) -> None:
    async def main() -> None:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            nobody = unused.getsockname()[1]
            async with scripted_controller() as standby, scripted_controller() as active:
                standby.usual[REGISTRATION] = BrokerRegistrationResponse(error_code=NOT_CONTROLLER)
                standby.usual[HEARTBEAT] = BrokerHeartbeatResponse(error_code=NOT_CONTROLLER)
                ports = (nobody, standby.port, active.port)
                voters = ",".join(f"{7 + n}@127.0.0.1:{port}" for n, port in enumerate(ports))
                async with lone_broker(tmp_path, (), serving=False, voters=voters) as lone:
                    await running(lone)
                    assert active.registrations()

    run(main)


def test_a_broker_that_cannot_register_says_so_and_goes_on_trying(tmp_path: Path) -> None:
    async def story(lone: LoneBroker, controller: ScriptedController) -> None:
        controller.usual[REGISTRATION] = BrokerRegistrationResponse(error_code=NOT_CONTROLLER)
        findings = lone.broker.host.findings
        started_ms = lone.clock.monotonic_ms()
        lone.broker.link.poke()
        await lone.until(findings.all, step_ms=200)
        await lone.until(lambda: lone.clock.monotonic_ms() - started_ms > 106_000, step_ms=500)
        (finding,) = findings.all()
        assert (finding.kind, finding.subject) == ("not-registered", "broker 1")
        assert f"127.0.0.1:{controller.port}" in finding.text
        assert "not the active controller" in finding.text
        assert "start the other nodes" in finding.advice

        controller.usual[REGISTRATION] = BrokerRegistrationResponse(broker_epoch=BROKER_EPOCH)
        await lone.until(lambda: lone.broker.link.lifecycle.state == RUNNING, step_ms=200)
        assert findings.all() == ()

    told(tmp_path, story)


def seat_taken(lone: LoneBroker) -> list[SeatTaken]:
    told_to_node: list[SeatTaken] = []
    lone.broker.link.registering.on_seat_taken = told_to_node.append
    return told_to_node


def test_a_broker_stops_when_another_process_keeps_its_seat(tmp_path: Path) -> None:
    async def story(lone: LoneBroker, controller: ScriptedController) -> None:
        taken = seat_taken(lone)
        controller.usual[REGISTRATION] = BrokerRegistrationResponse(error_code=DUPLICATE)
        started_ms = lone.clock.monotonic_ms()
        lone.broker.link.poke()
        await lone.until(lambda: taken, step_ms=100)
        assert lone.clock.monotonic_ms() - started_ms >= 2 * 9_000, "a dead one has lost its lease"
        assert str(taken[0]) == "another process is running as node 1 at 127.0.0.1:1, elsewhere:1"
        assert "copied" in taken[0].advice

    told(tmp_path, story)


def test_a_broker_whose_seat_was_given_away_stops(tmp_path: Path) -> None:
    async def story(lone: LoneBroker, controller: ScriptedController) -> None:
        taken = seat_taken(lone)
        await running(lone)
        stale = BrokerHeartbeatResponse(error_code=STALE_BROKER_EPOCH)
        controller.says(HEARTBEAT, stale)
        await lone.until(lambda: taken, step_ms=100)
        assert "our seat was taken: another process is running as node 1" in str(taken[0])

    told(tmp_path, story)


class Succession(NamedTuple):
    """A broker that runs, its controller, and the one that follows when it is told."""

    lone: LoneBroker
    old: ScriptedController
    new: ScriptedController
    happen: Callable[[], None]


@contextlib.asynccontextmanager
async def succession(data: Path) -> AsyncIterator[Succession]:
    async with scripted_controller() as old, scripted_controller() as new:
        leader = [old]
        async with lone_broker(
            data,
            {},
            serving=False,
            voters=f"9@127.0.0.1:{old.port}",
            find_controller=lambda: (9, ("127.0.0.1", leader[0].port)),
        ) as lone:
            await running(lone)
            yield Succession(lone, old, new, lambda: leader.__setitem__(0, new))


def test_the_quorums_leader_is_asked_as_soon_as_it_is_known(tmp_path: Path) -> None:
    async def main() -> None:
        async with succession(tmp_path) as (lone, _, new, happen):
            happen()
            await lone.until(new.heartbeats)
            assert new.registrations() == []
            assert new.heartbeats()[0].broker_epoch == BROKER_EPOCH

    run(main)


def test_a_broker_leaves_when_the_controller_lets_it_go(tmp_path: Path) -> None:
    async def story(lone: LoneBroker, controller: ScriptedController) -> None:
        await running(lone)
        stay = BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False)
        leave = BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False, should_shut_down=True)
        before = len(controller.heartbeats())
        controller.says(HEARTBEAT, stay, leave)
        lone.broker.link.begin_shutdown()
        await lone.until(lone.broker.link.stopped.is_set)
        asked = controller.heartbeats()[before:]
        assert [each.want_shut_down for each in asked] == [True, True]

    told(tmp_path, story)


# ---- in-sync sets


async def lagging_follower(lone: LoneBroker) -> None:
    """Broker 1 leads; 2 is a member of the in-sync set that does not fetch any more."""
    await running(lone)
    lone.create_topic(TOPIC, replicas=(1, 2, 3), isr=(1, 2))


def follower_catches_up(lone: LoneBroker) -> None:
    lone.follower_fetches(TOPIC, 3, 0)


def isr_of(lone: LoneBroker) -> tuple[int, ...]:
    hosted = lone.broker.replicas.named(TOPIC, 0)
    assert hosted is not None
    assert hosted.leader is not None
    return hosted.leader.isr


def accept(call: Call) -> None:
    """What a controller answers that has committed the change."""
    request = call.request
    assert isinstance(request, AlterPartitionRequest)
    topics = [
        TopicData(
            topic_id=topic.topic_id,
            partitions=[
                PartitionData(
                    partition_index=asked.partition_index,
                    leader_id=1,
                    leader_epoch=asked.leader_epoch,
                    isr=[member.broker_id for member in asked.new_isr_with_epochs],
                    partition_epoch=asked.partition_epoch + 1,
                )
                for asked in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    call.answer(AlterPartitionResponse(topics=topics))


def test_an_in_sync_set_is_proposed_with_broker_epochs_and_adopted(tmp_path: Path) -> None:
    async def story(lone: LoneBroker, controller: ScriptedController) -> None:
        controller.usual[ALTER_PARTITION] = accept
        await lagging_follower(lone)
        follower_catches_up(lone)
        await lone.until(lambda: isr_of(lone) == (1, 2, 3))
        (request,) = controller.asked(ALTER_PARTITION)
        assert isinstance(request, AlterPartitionRequest)
        assert (request.broker_id, request.broker_epoch) == (1, BROKER_EPOCH)
        ((asked,),) = (topic.partitions for topic in request.topics)
        members = {each.broker_id: each.broker_epoch for each in asked.new_isr_with_epochs}
        assert members[3] == 103
        assert sorted(members) == [1, 2, 3]
        assert controller.connections(ALTER_PARTITION).isdisjoint(controller.connections(HEARTBEAT))

    told(tmp_path, story)


@pytest.mark.parametrize("failure", ["refusal", "silence", "hang-up"])
def test_a_proposal_is_repeated_until_it_is_decided(tmp_path: Path, failure: str) -> None:
    reply = {
        "refusal": AlterPartitionResponse(error_code=NOT_CONTROLLER),
        "silence": silence,
        "hang-up": hang_up,
    }[failure]

    async def story(lone: LoneBroker, controller: ScriptedController) -> None:
        controller.says(ALTER_PARTITION, reply)
        controller.usual[ALTER_PARTITION] = accept
        await lagging_follower(lone)
        follower_catches_up(lone)
        await lone.until(lambda: isr_of(lone) == (1, 2, 3))
        first, second = controller.asked(ALTER_PARTITION)
        assert first == second

    told(tmp_path, story)


def test_an_undecided_proposal_does_not_keep_heartbeats_waiting(tmp_path: Path) -> None:
    async def story(lone: LoneBroker, controller: ScriptedController) -> None:
        await lagging_follower(lone)
        follower_catches_up(lone)
        await lone.until(lambda: controller.asked(ALTER_PARTITION))
        before = len(controller.heartbeats())
        await lone.until(lambda: len(controller.heartbeats()) > before + 1)

    told(tmp_path, story)


# ---- forwarding


WISH = CreateTopicsRequest(topics=[CreatableTopic(name="new", num_partitions=1)])


def created(*codes: int) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=[CreatableTopicResult(name=f"t{n}", error_code=code) for n, code in enumerate(codes)]
    )


async def forwarded(lone: LoneBroker, timeout_ms: int = 5_000) -> CreateTopicsResponse:
    task = asyncio.ensure_future(lone.broker.link.forward(WISH, 7, timeout_ms))
    await lone.until(task.done)
    answer = task.result()
    assert isinstance(answer, CreateTopicsResponse)
    return answer


def test_a_request_is_passed_on_and_its_answer_brought_back(tmp_path: Path) -> None:
    async def story(lone: LoneBroker, controller: ScriptedController) -> None:
        controller.says(CREATE_TOPICS, created(36))
        assert await forwarded(lone) == created(36)
        assert controller.asked(CREATE_TOPICS) == [WISH]

    told(tmp_path, story)


def test_a_node_that_is_not_the_controller_is_asked_again(tmp_path: Path) -> None:
    async def story(lone: LoneBroker, controller: ScriptedController) -> None:
        controller.says(
            CREATE_TOPICS, created(NOT_CONTROLLER, NOT_CONTROLLER), hang_up, created(0, 0)
        )
        assert await forwarded(lone) == created(0, 0)
        assert len(controller.asked(CREATE_TOPICS)) == 3

    told(tmp_path, story)


def test_an_answer_that_is_partly_performed_is_not_asked_for_again(tmp_path: Path) -> None:
    async def story(lone: LoneBroker, controller: ScriptedController) -> None:
        controller.says(CREATE_TOPICS, created(0, NOT_CONTROLLER))
        assert await forwarded(lone) == created(0, NOT_CONTROLLER)

    told(tmp_path, story)


@pytest.mark.parametrize("reply", [created(NOT_CONTROLLER), silence, hang_up])
def test_a_forwarded_request_ends_with_its_time(
    tmp_path: Path, reply: CreateTopicsResponse | Callable[[Call], None]
) -> None:
    async def story(lone: LoneBroker, controller: ScriptedController) -> None:
        controller.usual[CREATE_TOPICS] = reply
        with pytest.raises(NetworkError, match="within 1000 ms"):
            await forwarded(lone, 1_000)

    told(tmp_path, story)


def test_who_waits_longer_is_not_asked_for_again_because_another_gave_up(tmp_path: Path) -> None:
    """The controller is slow and the connection is whole: what it was asked it will answer."""

    async def story(lone: LoneBroker, controller: ScriptedController) -> None:
        calls: list[Call] = []
        controller.usual[CREATE_TOPICS] = calls.append
        patient = asyncio.ensure_future(lone.broker.link.forward(WISH, 7, 60_000))
        with pytest.raises(NetworkError, match="within 1000 ms"):
            await forwarded(lone, 1_000)
        assert not patient.done()
        later = asyncio.ensure_future(lone.broker.link.forward(WISH, 7, 60_000))
        await lone.until(lambda: len(calls) == 3)
        assert calls[2].connection is not calls[0].connection
        for number, call in enumerate(calls):
            call.answer(created(number))
        await lone.until(lambda: patient.done() and later.done())
        assert (patient.result(), later.result()) == (created(0), created(2))
        await lone.until(lambda: calls[0].connection in controller.closed)
        assert len(calls) == 3
        assert calls[2].connection not in controller.closed

    told(tmp_path, story)


def test_closing_the_link_ends_what_waits_for_an_answer(tmp_path: Path) -> None:
    async def story(lone: LoneBroker, controller: ScriptedController) -> None:
        task = asyncio.ensure_future(lone.broker.link.forward(WISH, 7, 60_000))
        await lone.until(lambda: controller.asked(CREATE_TOPICS))
        lone.broker.link.close()
        await lone.until(task.done)
        assert isinstance(task.exception(), NetworkError)

    told(tmp_path, story)


@pytest.mark.parametrize("is_cut_off", [False, True])
def test_a_former_controller_may_still_answer_unless_it_is_cut_off(
    tmp_path: Path, is_cut_off: bool
) -> None:
    """It knows what became of its records as soon as it hears of its successor."""

    async def main() -> None:
        async with succession(tmp_path) as (lone, old, new, happen):
            calls: list[Call] = []
            old.usual[CREATE_TOPICS] = calls.append
            new.usual[CREATE_TOPICS] = created(1)
            asked = asyncio.ensure_future(lone.broker.link.forward(WISH, 7, 60_000))
            await lone.until(lambda: calls)
            happen()
            lone.broker.link.on_new_controller()
            await lone.until(new.heartbeats)
            assert not asked.done()
            if not is_cut_off:
                calls[0].answer(created(0))
            await lone.until(asked.done)
            assert asked.result() == created(1 if is_cut_off else 0)
            assert len(new.asked(CREATE_TOPICS)) == is_cut_off
            assert not old.connections(HEARTBEAT) & {*old.closed}

    run(main)


# ---- producer ids


def block(start: int, size: int) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(producer_id_start=start, producer_id_len=size)


def test_producer_ids_come_from_blocks_and_the_next_block_is_asked_for_in_time(
    tmp_path: Path,
) -> None:
    async def story(lone: LoneBroker, controller: ScriptedController) -> None:
        controller.says(ALLOCATE, block(1000, 10), block(5000, 10))
        ids = lone.broker.link.producer_ids
        assert ids.take() is None
        first = await asyncio.gather(ids.wait(), ids.wait(), ids.wait())
        assert first == [1000, 1001, 1002]
        assert len(controller.asked(ALLOCATE)) == 1
        assert [ids.take() for _ in range(6)] == list(range(1003, 1009))
        await lone.until(lambda: len(controller.asked(ALLOCATE)) == 2)
        assert await ids.wait() == 1009
        assert await ids.wait() == 5000

    told(tmp_path, story)


def test_without_a_controller_nobody_waits_for_ever_for_a_producer_id(tmp_path: Path) -> None:
    async def story(lone: LoneBroker, controller: ScriptedController) -> None:
        controller.usual[ALLOCATE] = AllocateProducerIdsResponse(error_code=NOT_CONTROLLER)
        waiting = asyncio.ensure_future(lone.broker.link.producer_ids.wait())
        await lone.until(waiting.done, step_ms=100)
        with pytest.raises(NoProducerIds):
            waiting.result()
        controller.usual[ALLOCATE] = block(7, 1)
        assert await lone.broker.link.producer_ids.wait() == 7

    told(tmp_path, story)
