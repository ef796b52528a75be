"""The network: what arrives, when, how often, and what a cut keeps away."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.sim.entropy import stream
from tidelog.sim.kernel import WORLD, Kernel
from tidelog.sim.network import CHANCE_SIZE, LOOPBACK_US, Network, NetworkPlan, delay_table

TEN_MINUTES_US = 600_000_000
NO_LIMIT = 1 << 50
STEADY = NetworkPlan(delay_us_min=1_000, delay_us_mean=1_000, delay_us_max=1_000)


class Wire:
    """A network whose deliveries are written down."""

    def __init__(self, plan=STEADY, seed=1):
        self.kernel = Kernel()
        self.arrived = []
        self.network = Network(self.kernel, stream(seed, "network"), plan, self._deliver)

    def _deliver(self, target, source, message):
        self.arrived.append((self.kernel.now_us, source, target, message))

    def messages(self):
        self.kernel.run(self.kernel.now_us + TEN_MINUTES_US, NO_LIMIT)
        return [message for _, _, _, message in self.arrived]


def test_a_message_arrives_once_at_its_target_after_its_delay():
    wire = Wire()
    wire.network.send(1, 2, "hello")
    wire.messages()
    assert wire.arrived == [(1_000, 1, 2, "hello")]


def test_the_same_seed_has_the_same_fate_for_every_message():
    plan = NetworkPlan(loss=200, duplicate=200)

    def fates(seed):
        wire = Wire(plan, seed)
        for number in range(300):
            wire.network.send(1, 2, number)
        wire.messages()
        return wire.arrived

    assert fates(7) == fates(7)
    assert fates(7) != fates(8)


def test_messages_overtake_each_other_unless_the_links_are_connections():
    def order(ordered):
        plan = NetworkPlan(delay_us_mean=5_000, delay_us_max=100_000, ordered=ordered)
        wire = Wire(plan)
        for number in range(200):
            wire.kernel.call_at(
                number * 10, WORLD, lambda n, wire=wire: wire.network.send(1, 2, n), number
            )
        return wire.messages()

    assert order(ordered=False) != list(range(200))
    assert order(ordered=True) == list(range(200))


def test_loss_and_duplication_come_close_to_their_share():
    plan = NetworkPlan(loss=CHANCE_SIZE // 4, duplicate=CHANCE_SIZE // 10)
    wire = Wire(plan)
    for number in range(20_000):
        wire.network.send(1, 2, number)
    arrived = wire.messages()
    assert 0.24 < wire.network.lost / 20_000 < 0.26
    assert 0.09 < wire.network.duplicated / (20_000 - wire.network.lost) < 0.11
    assert len(arrived) == 20_000 - wire.network.lost + wire.network.duplicated


def test_a_calm_network_loses_nothing():
    wire = Wire(NetworkPlan(loss=1_000, duplicate=1_000))
    wire.network.calm()
    for number in range(500):
        wire.network.send(1, 2, number)
    assert sorted(wire.messages()) == list(range(500))


def test_a_cut_stops_what_is_sent_and_what_is_on_its_way():
    wire = Wire()
    wire.network.send(1, 2, "on its way")
    handle = wire.network.cut([1], [2])
    wire.network.send(1, 2, "sent into the cut")
    wire.network.send(2, 1, "the other way")
    wire.network.send(1, 3, "elsewhere")
    assert wire.messages() == ["elsewhere"]
    wire.network.restore(handle)
    wire.network.send(1, 2, "healed")
    assert wire.messages() == ["elsewhere", "healed"]


def test_a_one_way_cut_lets_answers_through():
    wire = Wire()
    wire.network.cut([1], [2], both_ways=False)
    wire.network.send(1, 2, "request")
    wire.network.send(2, 1, "answer")
    assert wire.messages() == ["answer"]
    assert not wire.network.connected(1, 2)
    assert wire.network.connected(2, 1)


def test_a_link_works_again_only_when_the_last_of_its_cuts_has_ended():
    wire = Wire()
    isolated = wire.network.cut([1], [2, 3])
    split = wire.network.cut([1, 4], [2, 3])
    wire.network.restore(isolated)
    wire.network.restore(isolated)
    assert not wire.network.connected(1, 2)
    wire.network.restore(split)
    assert wire.network.connected(1, 2)


def test_ending_a_cut_after_all_was_healed_does_not_end_a_newer_one():
    wire = Wire()
    old = wire.network.cut([1], [2])
    wire.network.heal()
    wire.network.cut([1], [2])
    wire.network.restore(old)
    assert not wire.network.connected(1, 2)


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4), st.booleans()), max_size=12))
def test_any_cuts_ended_in_any_order_leave_every_link_working(cuts):
    wire = Wire()
    handles = [wire.network.cut([a], [b], both_ways=both) for a, b, both in cuts]
    for handle in reversed(handles):
        wire.network.restore(handle)
    assert all(wire.network.connected(a, b) for a in range(1, 5) for b in range(1, 5))


def test_a_clogged_link_is_slower_by_the_largest_factor_while_it_lasts():
    wire = Wire()
    slow = wire.network.clog([1], [2], 5)
    slower = wire.network.clog([1], [2], 50)
    wire.network.send(1, 2, "slowest")
    wire.network.unclog(slower)
    wire.network.send(1, 2, "slow")
    wire.network.unclog(slow)
    wire.network.send(1, 2, "normal")
    wire.messages()
    assert [at_us for at_us, *_ in wire.arrived] == [1_000, 5_000, 50_000]


def test_what_is_sent_to_a_stopped_node_never_reaches_its_next_life():
    wire = Wire()
    wire.network.send(1, 2, "to the old life")
    wire.kernel.revoke(2)
    wire.network.close(2)
    wire.network.send(1, 2, "to nobody")
    wire.network.open(2)
    wire.network.send(1, 2, "to the new life")
    assert wire.messages() == ["to the new life"]


def test_a_node_talks_to_itself_whatever_the_network_does():
    wire = Wire(NetworkPlan(loss=CHANCE_SIZE))
    wire.network.cut([1], [1, 2, 3])
    wire.network.send(1, 1, "broker to its own controller")
    wire.messages()
    assert wire.arrived == [(LOOPBACK_US, 1, 1, "broker to its own controller")]


@given(st.integers(1, 1_000), st.integers(0, 20_000), st.integers(0, 500_000))
def test_delays_stay_between_floor_and_ceiling_and_grow(floor, above, beyond):
    plan = NetworkPlan(floor, floor + above, floor + above + beyond)
    table = delay_table(plan)
    assert table == sorted(table)
    assert floor <= table[0]
    assert table[-1] <= plan.delay_us_max


def test_the_mean_delay_is_the_planned_one():
    table = delay_table(NetworkPlan(100, 10_000, 1_000_000))
    assert sum(table) / len(table) == pytest.approx(10_000, rel=0.02)
