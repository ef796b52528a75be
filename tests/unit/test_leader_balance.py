"""What it would change to give leaderships back to the preferred replicas."""

from tidelog.client.view import BrokerView, ClusterView, PartitionView, TopicView
from tidelog.survey.leader_balance import Share, obstacle, plan


def led_by(leader, replicas, *, isr=None, index=0):
    in_sync = tuple(replicas) if isr is None else isr
    return PartitionView("orders", index, leader, 3, tuple(replicas), in_sync)


def cluster(*partitions):
    brokers = {each: BrokerView(each, "host", 9092) for each in (1, 2, 3)}
    topics = {"orders": TopicView("orders", b"o" * 16, False, partitions)}
    return ClusterView("c", 1, brokers, topics)


def test_a_plan_says_who_leads_how_many_before_and_after():
    found = plan(
        cluster(
            led_by(2, (1, 2, 3)),
            led_by(2, (2, 3, 1), index=1),
            led_by(2, (3, 1, 2), index=2),
        )
    )
    assert found.moving == [("orders", 0), ("orders", 2)]
    assert found.shares == (Share(1, 0, 1, 1), Share(2, 3, 1, 1), Share(3, 0, 1, 1))


def test_who_is_not_in_sync_gets_nothing_and_the_plan_says_why():
    found = plan(cluster(led_by(2, (1, 2), isr=(2,)), led_by(None, (3, 2), isr=(2,), index=1)))
    assert found.moving == []
    assert [obstacle(each) for each in found.away] == ["1 is not in sync", "3 is not in sync"]
    assert found.shares == (Share(1, 0, 0, 1), Share(2, 1, 1, 0), Share(3, 0, 0, 1))


def test_leaders_that_are_at_home_make_an_empty_plan():
    found = plan(cluster(led_by(1, (1, 2))))
    assert (found.away, found.moving) == ((), [])
