"""The parts of the simulator that groups and transactions brought: plans, batches, connections."""

import json

import pytest

from tidelog.core.coordination import Marker
from tidelog.sim.batch_bytes import decoded, encoded
from tidelog.sim.coordination_plan import OFFSETS, OUTPUTS, TRANSACTIONS
from tidelog.sim.faults import KINDS
from tidelog.sim.membership import owned_in, papers, read, written
from tidelog.sim.messages import Connection
from tidelog.sim.plan import Plan, draw_plan, from_json, to_json
from tidelog.sim.shrink import without_broker, without_topic
from tidelog.sim.shrink_coordination import smaller, with_coordination
from tidelog.sim.sim_log import SimBatch, SimLog, client_batch, marker_batch, marker_of
from tidelog.sim.transaction_clients import committed_only

COMMIT = Marker(7, 3, True, 5)
ABORT = Marker(7, 3, False, 5)


@pytest.fixture(scope="module")
def plans() -> list[Plan]:
    return [plan for plan in map(draw_plan, range(120)) if plan.coordination is not None]


# -- plans


def test_about_half_of_the_plans_have_coordinators_and_all_kinds_of_clients_are_drawn(plans):
    assert 40 <= len(plans) <= 80
    coordinations = [plan.coordination for plan in plans]
    assert any(each.writers for each in coordinations)
    protocols = {group.protocol for each in coordinations for group in each.groups}
    assert protocols == {"classic", "cooperative", "consumer"}
    protocols = {each.protocol for c in coordinations for each in c.processors}
    assert protocols == {"", "classic", "cooperative", "consumer"}
    versions = {each.version for c in coordinations for each in (*c.writers, *c.processors)}
    assert versions == {1, 2}


def test_the_rest_of_a_plan_is_the_same_without_them(plans):
    for plan in plans[:10]:
        without = with_coordination(plan, None)
        assert without.topics == plan.topics
        assert without.producers == plan.producers
        own = [fault for fault in plan.faults if fault.topic < len(plan.topics)]
        assert [fault for fault in without.faults if fault in own] == own


def test_a_plan_with_coordinators_goes_through_a_file(plans):
    for plan in plans[:20]:
        assert from_json(json.loads(json.dumps(to_json(plan)))) == plan


def test_a_plan_from_before_there_were_coordinators_is_still_one():
    plan = next(plan for plan in map(draw_plan, range(50)) if plan.coordination is None)
    document = to_json(plan)
    del document["coordination"]
    assert from_json(document) == plan


def test_clients_have_the_topics_they_use_and_no_others(plans):
    for plan in plans:
        names = [topic.name for topic in plan.coordination.topics]
        assert (OFFSETS in names) == bool(plan.coordination.groups or plan.coordination.processors)
        assert (OUTPUTS in names) == bool(plan.coordination.processors)
        transactional = plan.coordination.writers or plan.coordination.processors
        assert (TRANSACTIONS in names) == bool(transactional)


# -- shrinking


def sound(plan: Plan) -> bool:
    return all(
        fault.kind in KINDS
        and fault.topic < len(plan.every_topic)
        and fault.partition < plan.every_topic[fault.topic].partitions
        for fault in plan.faults
    )


def test_every_smaller_plan_makes_sense_and_is_smaller(plans):
    for plan in plans[:20]:
        for candidate in smaller(plan):
            assert sound(candidate)
            assert len(candidate.every_topic) <= len(plan.every_topic)


def test_faults_follow_the_topics_of_coordinators_when_others_go(plans):
    plan = next(plan for plan in plans if len(plan.topics) > 1 and plan.brokers > 1)
    aimed = [f for f in plan.faults if f.topic >= len(plan.topics)]
    fewer = without_topic(plan, 0)
    kept = [f for f in fewer.faults if f.topic >= len(fewer.topics)]
    names = [plan.every_topic[fault.topic].name for fault in aimed]
    assert [fewer.every_topic[fault.topic].name for fault in kept] == names
    assert sound(fewer)
    alone = without_broker(plan, plan.brokers)
    assert all(t.replication_factor <= alone.brokers for t in alone.every_topic)


# -- batches


def test_a_marker_survives_its_batch_and_its_bytes():
    for marker in (COMMIT, ABORT):
        batch = marker_batch(marker, 17)._replace(base_offset=4, last_offset=4, leader_epoch=2)
        assert marker_of(batch) == marker
        assert decoded([memoryview(encoded(batch))], 1) == [batch]


def transactional(value: int, sequence: int) -> SimBatch:
    batch = client_batch((value,), producer_id=7, producer_epoch=3, base_sequence=sequence)
    return batch._replace(is_transactional=True)


def test_a_log_knows_what_was_aborted_also_after_a_cut_and_a_restart():
    log = SimLog(fsync=False)
    log.append_as_leader(transactional(1, 0), 0)
    log.append_as_leader(marker_batch(ABORT, 0), 0)
    log.append_as_leader(transactional(2, 1), 0)
    log.append_as_leader(marker_batch(ABORT, 0), 0)
    assert [(each.first_offset, each.last_offset) for each in log.aborted(0, 4)] == [(0, 1), (2, 3)]
    assert log.aborted(2, 3) == log.aborted(2, 4)
    log.truncate_to(3)
    assert [each.last_offset for each in log.aborted(0, 4)] == [1]
    log.reload()
    assert [each.last_offset for each in log.aborted(0, 4)] == [1]


def test_a_reader_of_committed_records_leaves_out_markers_and_what_was_aborted():
    log = SimLog(fsync=False)
    for value, marker in ((1, ABORT), (2, COMMIT)):
        log.append_as_leader(transactional(value, value - 1), 0)
        log.append_as_leader(client_batch((value * 10,)), 0)
        log.append_as_leader(marker_batch(marker, 0), 0)
    batches = log.read(0, log.log_end_offset, 100)
    shown = committed_only(batches, log.aborted(0, log.log_end_offset))
    assert [batch.values for batch in shown] == [(10,), (2,), (20,)]


# -- what clients say


def test_the_papers_of_a_member_say_what_it_owns():
    assert owned_in(papers((0, 2))) == (0, 2)
    assert owned_in(papers(())) == ()
    assert read(written((1,))) == (1,)


def test_on_one_connection_nothing_arrives_twice_or_after_it_was_closed():
    connection = Connection()
    assert connection.delivers()
    assert not connection.delivers()
    closed = Connection()
    closed.close()
    assert not closed.delivers()
