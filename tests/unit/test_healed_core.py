"""Which nodes are enough to go on: holders of what was committed, min ISR, a majority of voters."""

import pytest

from tidelog.core.metadata.image import MetadataImage, PartitionState, TopicState
from tidelog.core.types import NO_LEADER, PartitionId
from tidelog.sim.nodes.cluster_plan import ClusterPlan
from tidelog.sim.nodes.healed_core import sufficient_core

TOPIC = b"t" * 16


def image_of(*partitions):
    """Each is (replicas, ISR, ELR)."""
    states = {
        index: PartitionState(
            id=PartitionId(TOPIC, index),
            replicas=replicas,
            isr=isr,
            removing_replicas=(),
            adding_replicas=(),
            leader_recovery_state=0,
            elr=elr,
            last_known_elr=(),
            leader=isr[0] if isr else NO_LEADER,
            leader_epoch=3,
            partition_epoch=5,
        )
        for index, (replicas, isr, elr) in enumerate(partitions)
    }
    image = MetadataImage()
    image.topics[TOPIC] = TopicState("tides", TOPIC, states)
    return image


@pytest.mark.parametrize(
    ("partitions", "core"),
    [
        ([((1, 2, 3), (1, 2, 3), ())], (1, 2, 3)),
        ([((1, 2, 3), (2, 1), ())], (1, 2)),
        ([((1, 2, 3), (3,), ())], (1, 2, 3)),  # 1 and 2 are asked for to be as many as min ISR
        ([((1, 2, 3), (), (2,))], (1, 2)),
        ([((4, 5, 1), (5, 4), ())], (1, 2, 4, 5)),  # two of the voters 1, 2 and 3 are needed
        ([((1, 2, 3), (1, 2), ()), ((5, 1, 2), (5, 1), ())], (1, 2, 5)),
    ],
)
def test_a_core_holds_everything_and_can_elect(partitions, core):
    assert sufficient_core(image_of(*partitions), ClusterPlan(5, 3)) == core


def test_separate_controllers_are_needed_in_their_majority_alone():
    image = image_of(((1, 2, 3), (1, 2), ()))
    assert sufficient_core(image, ClusterPlan(3, 3, separate=True)) == (1, 2, 4, 5)
