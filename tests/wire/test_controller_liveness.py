"""A closed connection is a hint, and only refusals prove anything (ADR 0017)."""

from support.controller_node import ControllerNode, StoryBroker, controller_node
from support.loopback import until
from tidelog.controller.liveness import RETRY_AFTER_MS
from tidelog.core.errors import Error
from tidelog.core.events import BrokerFenced


async def noticed(node: ControllerNode) -> None:
    """The controller has heard that a connection closed."""
    await until(lambda: node.controller.liveness.probing)


async def answered(node: ControllerNode) -> None:
    """A probe came back: it is over, or the controller waits before it repeats it."""
    liveness = node.controller.liveness
    await until(lambda: liveness.pausing or not liveness.probing)


async def all_probes(node: ControllerNode) -> None:
    for pause_ms in RETRY_AFTER_MS:
        await answered(node)
        node.pass_time(pause_ms + 5)
    await until(lambda: not node.controller.liveness.probing)


def test_a_broker_that_died_is_fenced_before_its_lease_ends(tell) -> None:
    async def story():
        async with controller_node() as node:
            dead, alive = await node.start_brokers(1, 2)
            now_ms = node.network.wheel.clock.monotonic_ms()
            await dead.die()
            await until(lambda: node.broker(1).fenced)
            assert node.network.wheel.clock.monotonic_ms() == now_ms, "nobody waited for anything"
            assert not node.broker(2).fenced
            assert BrokerFenced in map(type, node.events)
            successor = await alive.register(broker_id=1, incarnation_id=b"n" * 16, log_dirs=[])
            assert successor.error_code == 0, "it need not wait for the lease either"

    tell(story)


def test_a_broker_that_only_lost_its_connection_stays(tell) -> None:
    async def story():
        async with controller_node() as node:
            (broker,) = await node.start_brokers(1)
            broker.peer.close()
            await noticed(node)
            await all_probes(node)
            assert not node.broker(1).fenced
            assert not (await broker.beat()).is_fenced

    tell(story)


def test_one_endpoint_that_accepts_is_enough_to_stay(tell) -> None:
    async def story():
        async with controller_node() as node:
            broker = StoryBroker(node, 1)
            await broker.start(listeners=2)
            await node.stop_listening(broker.listeners[0])
            broker.peer.close()
            await noticed(node)
            await all_probes(node)
            assert not node.broker(1).fenced

    tell(story)


def test_a_process_whose_listener_closes_last_is_found_out_by_a_repeated_probe(tell) -> None:
    async def story():
        async with controller_node() as node:
            (broker,) = await node.start_brokers(1)
            broker.peer.close()
            await noticed(node)
            await answered(node)
            assert not node.broker(1).fenced
            await broker.stop_listening()
            node.pass_time(RETRY_AFTER_MS[0] + 5)
            await until(lambda: node.broker(1).fenced)

    tell(story)


def test_a_broker_that_is_heard_again_is_not_probed_further(tell) -> None:
    async def story():
        async with controller_node() as node:
            (broker,) = await node.start_brokers(1)
            broker.peer.close()
            await noticed(node)
            await answered(node)
            await broker.beat()
            # Would be refused now, if anybody asked.
            await broker.stop_listening()
            node.pass_time(RETRY_AFTER_MS[0] + 5)
            await until(lambda: not node.controller.liveness.probing)
            assert not node.broker(1).fenced

    tell(story)


def test_a_probe_that_is_given_up_in_the_turn_of_its_next_time_fails_nobody(tell) -> None:
    """Its timer fires before the cancelled task runs again."""

    async def story():
        async with controller_node() as node:
            (broker,) = await node.start_brokers(1)
            broker.peer.close()
            await until(lambda: node.controller.liveness.pausing)
            node.controller.liveness.stop()
            node.pass_time(RETRY_AFTER_MS[0] + 5)
            await until(lambda: not node.controller.liveness.probing)
            assert not node.broker(1).fenced

    tell(story)


def test_only_the_connection_of_the_last_heartbeat_counts(tell) -> None:
    async def story():
        async with controller_node() as node:
            (broker,) = await node.start_brokers(1)
            first, broker.peer = broker.peer, node.peer()
            await broker.beat()
            first.close()
            await until(lambda: node.closed)
            assert not node.controller.liveness.probing

    tell(story)


def test_nobody_can_be_refused_where_nothing_is_registered(tell) -> None:
    async def story():
        async with controller_node() as node:
            broker = StoryBroker(node, 1)
            await broker.start(listeners=0)
            broker.peer.close()
            await noticed(node)
            await until(lambda: not node.controller.liveness.probing)
            assert not node.broker(1).fenced

    tell(story)


def test_a_new_controller_looks_at_every_broker_it_inherits(tell) -> None:
    """A node that led the quorum and partitions died: nobody's connection to us has closed."""

    async def story():
        async with controller_node() as node:
            dead, _, fenced = await node.start_brokers(1, 2, 3)
            assert (await fenced.beat(want_fence=True)).is_fenced
            node.quorum.depose()
            await dead.die()
            node.quorum.elect()
            assert node.controller.liveness.probing == 2, "those that are unfenced"
            await until(lambda: node.broker(1).fenced)
            await until(lambda: not node.controller.liveness.probing)
            assert not node.broker(2).fenced

    tell(story)


def test_who_is_not_active_probes_nobody(tell) -> None:
    async def story():
        async with controller_node() as node:
            (broker,) = await node.start_brokers(1)
            node.quorum.depose()
            await broker.die()
            await until(lambda: node.closed)
            assert not node.controller.liveness.probing
            assert not node.broker(1).fenced

    tell(story)


def test_a_broker_that_is_started_again_in_its_place_need_not_wait_for_its_lease(tell) -> None:
    """It listens before it registers, so no probe can tell that the former process died."""

    async def story():
        async with controller_node() as node:
            (broker,) = await node.start_brokers(1)
            ports = [each.port for each in broker.listeners]
            broker.peer.close()
            await noticed(node)
            again = StoryBroker(node, 1)
            answer = await again.register(*ports, incarnation_id=b"n" * 16)
            assert answer.error_code == 0

    tell(story)


def test_a_copy_of_a_directory_does_not_get_the_seat_of_a_broker_that_is_connected(tell) -> None:
    async def story():
        async with controller_node() as node:
            (broker,) = await node.start_brokers(1)
            ports = [each.port for each in broker.listeners]
            copy = StoryBroker(node, 1)
            for place in (ports, [ports[0] + 1]):
                answer = await copy.register(
                    *place, incarnation_id=b"c" * 16, previous_broker_epoch=broker.broker_epoch
                )
                assert answer.error_code == Error.DUPLICATE_BROKER_REGISTRATION
            assert (await broker.beat()).error_code == 0

    tell(story)
