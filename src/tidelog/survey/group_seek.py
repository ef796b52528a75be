"""Moving what a group has committed: the plan, and doing it."""

from collections.abc import Sequence

from tidelog.client import Client, KafkaError
from tidelog.client.groups import Committed, GroupAdmin, GroupView
from tidelog.client.offsets import EARLIEST, LATEST, NOTHING, find_offset
from tidelog.core.errors import Error
from tidelog.survey.groups import named_group
from tidelog.survey.refusal import NotPossible
from tidelog.survey.seek_targets import Move, Target, Toward, settle
from tidelog.survey.topics import named_topic

WOULD_OVERWRITE = "would commit over it"
HAS_MEMBERS = (Error.UNKNOWN_MEMBER_ID, Error.ILLEGAL_GENERATION, Error.REBALANCE_IN_PROGRESS)


async def seek(
    client: Client,
    name: str,
    target: Target,
    chosen: dict[str, list[int] | None],
    *,
    doing: bool,
) -> list[Move]:
    """The plan for a group that has no members; carried out if it is to be."""
    admin = GroupAdmin(client)
    group = await named_group(client, name)
    refuse_members(group, WOULD_OVERWRITE)
    committed = await admin.committed(name, coordinator=group.coordinator)
    moves = await plan(client, target, chosen, committed)
    if doing and moves:
        await move(admin, name, moves)
    return moves


def refuse_members(group: GroupView, reason: str) -> None:
    if not group.members:
        return
    name = group.group_id
    listed = ", ".join(f"{each.client_id} at {each.host}" for each in group.members)
    raise NotPossible(
        f"group {name} has {len(group.members)} member{'s' * (len(group.members) != 1)}",
        why=f"{listed} {reason}: stop them first",
        advice=f"tidelog group describe {name}",
    )


async def plan(
    client: Client,
    target: Target,
    chosen: dict[str, list[int] | None],
    committed: dict[tuple[str, int], Committed],
) -> list[Move]:
    wanted = await partitions_of(client, chosen) if chosen else sorted(committed)
    return [
        await move_of(client, topic, index, target, committed.get((topic, index)))
        for topic, index in wanted
    ]


async def partitions_of(
    client: Client, chosen: dict[str, list[int] | None]
) -> list[tuple[str, int]]:
    found = []
    for name, indexes in chosen.items():
        known = [each.partition for each in (await named_topic(client, name)).partitions]
        for index in known if indexes is None else indexes:
            if index not in known:
                raise NotPossible(
                    f"{name} has no partition {index}",
                    why=f"it has the partitions 0 to {len(known) - 1}",
                    advice=f"tidelog topic describe {name}",
                )
            found.append((name, index))
    return found


async def move_of(
    client: Client, topic: str, index: int, target: Target, known: Committed | None
) -> Move:
    start = (await find_offset(client, topic, index, EARLIEST)).offset
    end = (await find_offset(client, topic, index, LATEST)).offset
    committed = known.offset if known is not None else None
    note = ""
    match target.toward:
        case Toward.EARLIEST:
            wanted = start
        case Toward.LATEST:
            wanted = end
        case Toward.OFFSET:
            wanted = target.value
        case Toward.SHIFT:
            wanted = (start if committed is None else committed) + target.value
            note = "nothing committed: from the start" if committed is None else ""
        case Toward.TIME:
            found = (await find_offset(client, topic, index, target.value)).offset
            wanted = end if found == NOTHING else found
            note = "nothing since: the end" if found == NOTHING else ""
    to, changed = settle(wanted, start, end)
    return Move(topic, index, committed, to, changed or note)


async def move(admin: GroupAdmin, name: str, moves: Sequence[Move]) -> None:
    try:
        await admin.move(name, {(each.topic, each.partition): each.to for each in moves})
    except KafkaError as error:
        if error.error not in HAS_MEMBERS:
            raise
        refuse_members(await admin.describe(name), WOULD_OVERWRITE)
        raise
