"""`/api/groups`: who reads what, how far behind they are, and moving them."""

import asyncio
import time

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tidelog.client import KafkaError
from tidelog.client.groups import GroupAdmin, ListedGroup
from tidelog.console.bodies import json_body
from tidelog.console.console import asking_session_of
from tidelog.console.live import Document
from tidelog.console.refusal import bad_input
from tidelog.console.sessions import Session
from tidelog.core.errors import Error
from tidelog.survey.group_seek import seek
from tidelog.survey.groups import GroupSurvey, PartitionLag, survey
from tidelog.survey.lag_state import OK, LagWindow, one_look, worst
from tidelog.survey.seek_targets import parse_target, parse_topics

AT_ONCE = 16
MOST_GROUPS = 500
MOST_WINDOWS = 500
WINDOW_MS = 10_000


async def list_groups(request: Request) -> Response:
    session = asking_session_of(request)
    gate = asyncio.Semaphore(AT_ONCE)

    async def look(listed: ListedGroup) -> Document | None:
        async with gate:
            return await group_row(session, listed)

    listed = (await GroupAdmin(session.client).list_groups())[:MOST_GROUPS]
    rows = await asyncio.gather(*(look(each) for each in listed))
    return JSONResponse([row for row in rows if row is not None])


async def group_row(session: Session, listed: ListedGroup) -> Document | None:
    """None if it was deleted since it was listed."""
    try:
        found = await survey(session.client, listed.group_id)
    except KafkaError as error:
        if error.error == Error.GROUP_ID_NOT_FOUND:
            return None
        return unknown_row(listed, str(error))
    return head_of(session, found)


def unknown_row(listed: ListedGroup, problem: str) -> Document:
    """One group that cannot be looked at does not hide the others."""
    return {
        "group": listed.group_id,
        "type": listed.kind or None,
        "state": listed.state,
        "members": None,
        "coordinator": listed.coordinator,
        "lag": None,
        "burrow": None,
        "problem": problem,
    }


def head_of(session: Session, found: GroupSurvey) -> Document:
    return {
        "group": found.group.group_id,
        "type": found.group.kind,
        "state": found.group.state,
        "members": len(found.group.members),
        "coordinator": found.group.coordinator,
        "lag": found.lag,
        "burrow": health_of(session, found),
    }


def health_of(session: Session, found: GroupSurvey) -> str | None:
    """A group keeps up if that is known of each of its partitions."""
    states = states_of(session, found)
    judged = [each for each in found.partitions if each.committed is not None]
    state = worst(states.values())
    return None if state == OK and len(states) < len(judged) else state


def states_of(session: Session, found: GroupSurvey) -> dict[tuple[str, int], str]:
    """Over the looks of this user at this group; empty before the first ten seconds are over,
    unless it is clear at once."""
    name, windows = found.group.group_id, session.windows
    if name not in windows and len(windows) >= MOST_WINDOWS:
        windows.pop(next(iter(windows)))
    window = windows.setdefault(name, LagWindow(WINDOW_MS))
    return window.add(found.partitions, int(time.time() * 1000))


async def get_group(request: Request) -> Response:
    session = asking_session_of(request)
    found = await survey(session.client, request.path_params["group"])
    head = head_of(session, found)
    states = states_of(session, found)
    members = [
        {
            "member": each.member_id,
            "client": each.client_id,
            "host": each.host,
            "instance": each.instance_id,
            "topics": list(each.topics),
            "partitions": [f"{topic}-{index}" for topic, index in each.partitions],
        }
        for each in found.group.members
    ]
    rows = [partition_row(each, states.get(each.where)) for each in found.partitions]
    return JSONResponse(
        {**head, "member_count": len(members), "members": members, "partitions": rows}
    )


def partition_row(partition: PartitionLag, state: str | None) -> Document:
    member = partition.member
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "committed": partition.committed,
        "end": partition.end,
        "lag": partition.lag,
        "state": state or one_look(partition),
        "member": member.member_id if member else None,
        "client": member.client_id if member else None,
        "host": member.host if member else None,
    }


async def seek_group(request: Request) -> Response:
    session = asking_session_of(request)
    body = await json_body(request)
    to, topics, doing = body.get("to"), body.get("topics") or [], body.get("apply", False)
    if not isinstance(to, str):
        raise bad_input("where to is not said", '"to": "earliest"')
    if not isinstance(topics, list) or not all(isinstance(each, str) for each in topics):
        raise bad_input("topics have to be texts", '"topics": ["orders", "bills:0,2"]')
    if not isinstance(doing, bool):
        raise bad_input("apply has to be true or false", '"apply": false')
    target = parse_target(to, int(time.time() * 1000))
    chosen = parse_topics(tuple(topics))
    group = request.path_params["group"]
    moves = await seek(session.client, group, target, chosen, doing=doing)
    plan = [
        {
            "topic": each.topic,
            "partition": each.partition,
            "from": each.committed,
            "to": each.to,
            "note": each.note,
        }
        for each in moves
    ]
    return JSONResponse({"plan": plan, "applied": doing and bool(moves)})


ROUTES = [
    Route("/api/groups", list_groups, methods=["GET"]),
    Route("/api/groups/{group:path}/seek", seek_group, methods=["POST"]),
    Route("/api/groups/{group:path}", get_group, methods=["GET"]),
]
