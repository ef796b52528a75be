"""What is wrong with a cluster, in sentences, worst first."""

from tidelog.client.admin import QuorumView
from tidelog.survey.cluster import Survey
from tidelog.survey.partition_state import OFFLINE, UNDER_MIN_ISR

NO_QUORUM_LEADER = "the quorum has no leader"


def complaints(found: Survey) -> list[str]:
    offline = [pair for pair in found.unwell if pair[1].state == OFFLINE]
    under_min = [pair for pair in found.unwell if pair[1].state == UNDER_MIN_ISR]
    others = [pair for pair in found.unwell if pair not in offline and pair not in under_min]
    sentences = [
        f"{each.topic}-{each.partition} {judgement}"
        for group in (offline, under_min)
        for each, judgement in group
    ]
    sentences += [f"broker {broker.id} is down" for broker in found.brokers if not broker.alive]
    sentences += [str(disk) for broker in found.brokers for disk in broker.full_disks]
    if found.quorum is not None and found.quorum.leader < 0:
        sentences.append(NO_QUORUM_LEADER)
    sentences += silent_controllers(found.quorum)
    sentences += [f"{each.topic}-{each.partition} {judgement}" for each, judgement in others]
    return sentences


def silent_controllers(quorum: QuorumView | None) -> list[str]:
    """Of a cluster that just started: a node that never came is no broker that is down."""
    if quorum is None or quorum.leader < 0:
        return []
    return [
        f"controller {each.id} was not heard yet by {quorum.leader}, the active one"
        for each in quorum.voters
        if each.log_end_offset < 0
    ]
