"""What a heartbeat of the consumer protocol may ask for, and what becomes of one that may not."""

from tidelog.core.errors import Error
from tidelog.core.groups.consumer_group import LEFT_FOR_A_WHILE, ConsumerGroup
from tidelog.core.groups.consumer_reconcile import is_subset
from tidelog.core.groups.records import ConsumerMemberValue, CurrentAssignmentValue
from tidelog.core.groups.requests import ConsumerHeartbeat
from tidelog.core.groups.settings import InvalidRegex, TopicsView

JOINING, LEAVING = 0, -1
AS_BEFORE_MS = -1


class RefusedHeartbeatError(Exception):
    """The member's fault or bad luck, never ours."""

    def __init__(self, error: Error, reason: str) -> None:
        assert error != Error.NONE, f"refused without an error: {reason}"
        super().__init__(f"{error.name}: {reason}")
        self.error = error
        self.reason = reason


def check_shape(request: ConsumerHeartbeat, assignors: tuple[str, ...]) -> None:
    """What can be said without knowing the group."""
    for wrong, reason in (
        (not request.group_id, "GroupId can't be empty."),
        (not (request.member_id or _may_get_id(request)), "MemberId can't be empty."),
        (request.instance_id == "", "InstanceId can't be empty; leave it out instead."),
        (request.rack_id == "", "RackId can't be empty; leave it out instead."),
        (
            request.member_epoch < LEFT_FOR_A_WHILE,
            f"MemberEpoch {request.member_epoch} is invalid.",
        ),
        (
            request.member_epoch == LEFT_FOR_A_WHILE and request.instance_id is None,
            "Only a static member can leave for a while: InstanceId is missing.",
        ),
        (
            request.rebalance_timeout_ms < AS_BEFORE_MS,
            f"RebalanceTimeoutMs {request.rebalance_timeout_ms} is invalid.",
        ),
    ):
        if wrong:
            raise RefusedHeartbeatError(Error.INVALID_REQUEST, reason)
    if request.member_epoch == JOINING:
        _check_join(request)
    if request.server_assignor is not None and request.server_assignor not in assignors:
        reason = (
            f"ServerAssignor {request.server_assignor} is not supported. "
            f"Supported assignors: {', '.join(assignors)}."
        )
        raise RefusedHeartbeatError(Error.UNSUPPORTED_ASSIGNOR, reason)


def _may_get_id(request: ConsumerHeartbeat) -> bool:
    """Version 0 of the request: the coordinator names the member."""
    return request.member_epoch == JOINING and bool(request.fresh_member_id)


def _check_join(request: ConsumerHeartbeat) -> None:
    for wrong, reason in (
        (
            request.rebalance_timeout_ms == AS_BEFORE_MS,
            "RebalanceTimeoutMs must be provided when (re-)joining.",
        ),
        (
            request.owned is None or len(request.owned) > 0,
            "TopicPartitions must be empty when (re-)joining.",
        ),
        (
            request.subscribed_topics is None and request.subscribed_regex is None,
            "SubscribedTopicNames or SubscribedTopicRegex must be provided when (re-)joining.",
        ),
    ):
        if wrong:
            raise RefusedHeartbeatError(Error.INVALID_REQUEST, reason)


def known_as(group: ConsumerGroup, request: ConsumerHeartbeat, member_id: str) -> str | None:
    """Whose place in the group the member takes: its own, that of its predecessor with the same
    instance id, or nobody's if it is new."""
    joins = request.member_epoch == JOINING
    known = member_id if member_id in group.members else None
    if request.instance_id is not None:
        holder = group.instances.get(request.instance_id)
        if joins and holder is not None and holder != member_id:
            _check_released(group, request.instance_id, holder)
            if known is not None:
                reason = f"Member {member_id} is in the group with another instance id already."
                raise RefusedHeartbeatError(Error.INVALID_REQUEST, reason)
            return holder
        if not joins and holder is not None and holder != member_id:
            reason = (
                f"Instance {request.instance_id} is member {holder} now, {member_id} is fenced."
            )
            raise RefusedHeartbeatError(Error.FENCED_INSTANCE_ID, reason)
        if not joins and holder is None:
            known = None
    if known is None and not joins:
        reason = f"Member {member_id} is not a member of group {group.group_id}."
        raise RefusedHeartbeatError(Error.UNKNOWN_MEMBER_ID, reason)
    return known


def _check_released(group: ConsumerGroup, instance_id: str, holder: str) -> None:
    if group.current(holder).member_epoch != LEFT_FOR_A_WHILE:
        reason = (
            f"Instance {instance_id} is still in use by member {holder}; it has to leave first."
        )
        raise RefusedHeartbeatError(Error.UNRELEASED_INSTANCE_ID, reason)


def check_epoch(request: ConsumerHeartbeat, current: CurrentAssignmentValue) -> None:
    """A member that missed one answer is one epoch behind and owns nothing that it was not to
    have anyway: it goes on. Everybody else in another epoch has lost touch."""
    epoch, ours = request.member_epoch, current.member_epoch
    if epoch == ours:
        return
    if (
        epoch < ours
        and epoch == current.previous_member_epoch
        and request.owned is not None
        and is_subset(request.owned, current.assigned)
    ):
        return
    reason = f"Member epoch is {epoch}, the coordinator has {ours}. Abandon all and rejoin with 0."
    raise RefusedHeartbeatError(Error.FENCED_MEMBER_EPOCH, reason)


def merge(
    before: ConsumerMemberValue | None, request: ConsumerHeartbeat, topics: TopicsView
) -> ConsumerMemberValue:
    """The member as this heartbeat describes it; what it leaves out is as before."""
    if before is None:
        before = ConsumerMemberValue(None, None, "", "", (), None, 0, None)
    names = before.subscribed_topics
    if request.subscribed_topics is not None:
        names = tuple(sorted(set(request.subscribed_topics)))
    regex = before.subscribed_regex
    if request.subscribed_regex is not None and request.subscribed_regex != regex:
        regex = request.subscribed_regex or None  # an empty one takes the subscription back
        _check_regex(regex, topics)
    timeout_ms = request.rebalance_timeout_ms
    return ConsumerMemberValue(
        instance_id=before.instance_id if request.instance_id is None else request.instance_id,
        rack_id=before.rack_id if request.rack_id is None else request.rack_id,
        client_id=request.client.client_id,
        client_host=request.client.client_host,
        subscribed_topics=names,
        subscribed_regex=regex,
        rebalance_timeout_ms=before.rebalance_timeout_ms if timeout_ms < 0 else timeout_ms,
        server_assignor=request.server_assignor or before.server_assignor,
    )


def _check_regex(regex: str | None, topics: TopicsView) -> None:
    if regex is None:
        return
    try:
        topics.matching(regex)
    except InvalidRegex as invalid:
        reason = f"SubscribedTopicRegex {regex!r} is not a valid regular expression: {invalid}"
        raise RefusedHeartbeatError(Error.INVALID_REGULAR_EXPRESSION, reason) from invalid
