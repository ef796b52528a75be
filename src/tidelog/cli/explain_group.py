"""Why a group rebalances or lags, in one paragraph."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from tidelog.cli.asking import Asking
from tidelog.cli.local.home import local_http
from tidelog.cli.output import count, duration, plural
from tidelog.cli.times import passed
from tidelog.client import Client
from tidelog.client.groups import CLASSIC, EMPTY
from tidelog.client.offsets import READ_COMMITTED, end_offsets
from tidelog.cluster.node_state import read_events
from tidelog.survey.groups import GroupSurvey, PartitionLag, survey

BETWEEN_LOOKS_SECONDS = 1.0
SHOWN = 3
RECENT_MS = 600_000
STABLE = "Stable"
PREPARING = "PreparingRebalance"
REBALANCING = {
    PREPARING: "its members have to join again, and some have not yet",
    "CompletingRebalance": "its members have joined, and wait for their leader's assignment",
    "Assigning": "the new assignment is being made",
    "Reconciling": "members have to give partitions up before others may have them",
}
STATE_CHANGED, MEMBER_LEFT = "GroupStateChanged", "MemberLeft"


class GroupFacts(NamedTuple):
    """All that the paragraph is made of."""

    before: GroupSurvey
    after: GroupSurvey
    seconds: float
    """Between the two looks."""
    stable: dict[tuple[str, int], int]
    """Last stable offsets."""
    events: Sequence[dict[str, Any]]
    """What its coordinator says of the group over HTTP; empty if it says nothing."""
    now_ms: int

    @property
    def name(self) -> str:
        return self.after.group.group_id

    @property
    def behind(self) -> list[PartitionLag]:
        """The worst first."""
        late = [each for each in self.after.partitions if each.lag]
        return sorted(late, key=lambda each: -(each.lag or 0))


def explain_group(asking: Asking, name: str) -> dict[str, Any]:
    async def look(client: Client) -> GroupFacts:
        return await gather_facts(client, name)

    return as_document(asking.run(look))


async def gather_facts(client: Client, name: str) -> GroupFacts:
    before, began = await survey(client, name), time.monotonic()
    if before.lag:  # only then a second look can tell more
        await asyncio.sleep(BETWEEN_LOOKS_SECONDS)
    after = await survey(client, name) if before.lag else before
    seconds = time.monotonic() - began
    late = [each.where for each in after.partitions if each.lag]
    stable = await end_offsets(client, late, isolation=READ_COMMITTED)
    coordinator = (await client.brokers()).brokers.get(after.group.coordinator)
    node = local_http(coordinator)
    events = await asyncio.to_thread(read_events, node) if node is not None else []
    of_group = [each for each in events if each.get("group_id") == name]
    return GroupFacts(before, after, seconds, stable, of_group, client.now_ms())


def sentences(facts: GroupFacts) -> list[str]:
    told = [_state(facts), *_on_the_way(facts), *_history(facts)]
    return [*told, *_lag(facts), *_waits(facts), *_idle(facts)]


def _state(facts: GroupFacts) -> str:
    group = facts.after.group
    told = f"Group {facts.name} is {group.state} at coordinator {group.coordinator}"
    if group.state in REBALANCING:
        return f"{told}: {REBALANCING[group.state]}."
    if not group.members:
        return f"{told}: nobody is a member of it."
    members = plural(len(group.members), "member")
    verb = "owns" if len(group.members) == 1 else "share"
    return f"{told}: {members} {verb} {plural(len(group.owners), 'partition')}."


def _on_the_way(facts: GroupFacts) -> list[str]:
    """With the consumer protocol: what members have and shall not, or shall have and wait for."""
    told = []
    for each in facts.after.group.members:
        name = each.client_id or each.member_id
        kept = [_name(where) for where in each.partitions if where not in each.target]
        awaited = [_name(where) for where in each.target if where not in each.partitions]
        if kept:
            told.append(f"{name} has to give up {', '.join(kept)}.")
        if awaited:
            told.append(f"{name} waits for {', '.join(awaited)}.")
    return told


def _name(where: tuple[str, int]) -> str:
    return f"{where[0]}-{where[1]}"


def _history(facts: GroupFacts) -> list[str]:
    """What set off the last rebalance, and whether that happens often."""
    begun = _rebalances(facts)
    told = []
    if begun:
        last = begun[-1]
        told.append(
            f"The last rebalance began {passed(last['time_ms'], facts.now_ms)} ago: "
            f"{last['reason']}."
        )
    recent = [each for each in begun if facts.now_ms - each["time_ms"] <= RECENT_MS]
    if len(recent) > 2:
        told.append(f"There were {len(recent)} in the last {duration(RECENT_MS / 1000)}.")
    told += _departures(facts)
    return told


def _rebalances(facts: GroupFacts) -> list[dict[str, Any]]:
    """The events that began one: members are called together, or with the consumer protocol there
    is a new epoch, which they reach one by one."""
    changes = [each for each in facts.events if each.get("event") == STATE_CHANGED]
    if facts.after.group.kind == CLASSIC:
        return [each for each in changes if each.get("state") == PREPARING]
    return [
        each
        for before, each in zip([{}, *changes], changes, strict=False)
        if before.get("generation") != each.get("generation")
    ]


def _departures(facts: GroupFacts) -> list[str]:
    gone = [each for each in facts.events if each.get("event") == MEMBER_LEFT]
    recent = [each for each in gone if facts.now_ms - each["time_ms"] <= RECENT_MS]
    return [
        f"It lost {each['member_id']} {passed(each['time_ms'], facts.now_ms)} ago: "
        f"{each['reason']}."
        for each in recent[-SHOWN:]
    ]


def _lag(facts: GroupFacts) -> list[str]:
    lag = facts.after.lag
    if lag is None:
        return ["It has committed nothing."]
    if not facts.behind:
        return ["It has committed everything there is."]
    worst = ", ".join(f"{each.name} by {count(each.lag or 0)}" for each in facts.behind[:SHOWN])
    more = len(facts.behind) - SHOWN
    others = f" and {plural(more, 'more partition')}" if more > 0 else ""
    told = [f"It is {plural(lag, 'record')} behind: {worst}{others}."]
    if facts.before is not facts.after:
        told.append(_speed(facts))
    return told


def _speed(facts: GroupFacts) -> str:
    earlier = {each.where: each for each in facts.before.partitions}
    committed = written = 0
    for each in facts.after.partitions:
        known = earlier.get(each.where)
        if known is None or None in (known.committed, known.end, each.committed, each.end):
            continue
        committed += (each.committed or 0) - (known.committed or 0)
        written += (each.end or 0) - (known.end or 0)
    told = f"In {duration(facts.seconds)} it committed {count(committed)} and {count(written)} were"
    if not committed and facts.after.group.members:
        return f"{told} written: its members may be slow, stuck, or commit seldom."
    if committed < written:
        return f"{told} written: it falls behind."
    return f"{told} written."


def _waits(facts: GroupFacts) -> list[str]:
    """What keeps members from going on that is none of their fault."""
    told = [f"Nobody leads {each.name}." for each in facts.after.partitions if each.end is None]
    for each in facts.behind[:SHOWN]:
        stable = facts.stable.get(each.where)
        if stable is not None and each.end is not None and stable < each.end:
            told.append(
                f"Readers of committed records wait at {stable} in {each.name}, "
                f"{plural(each.end - stable, 'record')} before its end: a transaction is open."
            )
    return told


def _idle(facts: GroupFacts) -> list[str]:
    members = facts.after.group.members
    if facts.after.group.state != STABLE:
        return []
    idle = [each.client_id or each.member_id for each in members if not each.partitions]
    return [f"Without a partition: {', '.join(idle)}."] if idle else []


def next_command(facts: GroupFacts) -> str:
    group = facts.after.group
    headless = [each.name for each in facts.after.partitions if each.end is None]
    if headless:
        return f"tidelog explain {headless[0]}"
    for each in facts.behind:
        stable = facts.stable.get(each.where)
        if stable is not None and stable == each.committed and stable < (each.end or 0):
            return f"tidelog explain {each.name}"
    if group.state == EMPTY and facts.behind:
        topic = facts.behind[0].topic
        return f"tidelog consume {topic} -g {facts.name}    (or start its members)"
    return f"tidelog group describe {facts.name} --watch"


def as_document(facts: GroupFacts) -> dict[str, Any]:
    group = facts.after.group
    return {
        "group": facts.name,
        "type": group.kind,
        "state": group.state,
        "coordinator": group.coordinator,
        "members": len(group.members),
        "lag": facts.after.lag,
        "behind": {each.name: each.lag for each in facts.behind},
        "events": [each.get("text") for each in facts.events][-10:],
        "explanation": " ".join(sentences(facts)),
        "next": next_command(facts),
    }
