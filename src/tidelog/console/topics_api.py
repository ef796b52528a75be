"""`/api/topics`: a page of them, one of them, creating and deleting."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tidelog.client import Admin, NewTopic, TopicView
from tidelog.client.admin import TOPIC_RESOURCE, ConfigEntry
from tidelog.client.errors import ClientError
from tidelog.client.groups import GroupAdmin
from tidelog.client.offsets import end_offsets
from tidelog.console import live, polled
from tidelog.console.bodies import json_body
from tidelog.console.console import asking_session_of, console_of
from tidelog.console.hub import Hub
from tidelog.console.queries import number_in
from tidelog.console.refusal import bad_input
from tidelog.console.sessions import Session
from tidelog.host.ports import NetworkError
from tidelog.survey.partition_state import HEALTHY, OFFLINE, UNDER_MIN_ISR, UNDER_REPLICATED, judge
from tidelog.survey.topics import min_isr_in, named_topic, offsets_of, topic_settings

PER_PAGE = 50
NAMES_AT_ONCE = 1_000
MOST_GROUPS = 50
FACTS_WITHIN_SECONDS = 1.5
_WORST = (OFFLINE, UNDER_MIN_ISR, UNDER_REPLICATED, HEALTHY)
_SOURCES = {
    1: "topic",
    2: "broker",
    3: "cluster",
    4: "server.properties",
    5: "default",
    6: "logger",
}

Lags = dict[str, dict[str, int]]
"""By topic and group."""


async def list_topics(request: Request) -> Response:
    session, hub = asking_session_of(request), console_of(request).hub
    page = max(1, number_in(request, "page", 1))
    wanted = request.query_params.get("search", "").lower()
    names = await matching(await known_names(hub, session), wanted)
    shown = names[(page - 1) * PER_PAGE : page * PER_PAGE]
    lags = await lags_of(session, shown)
    brokers = list((await session.client.brokers()).brokers)
    topics = await session.client.topics(shown) if shown else {}
    found = [topics[name] for name in shown if name in topics and not topics[name].error]
    rows = [topic_row(hub, topic, brokers, lags) for topic in found]
    return JSONResponse({"total": len(names), "page": page, "per_page": PER_PAGE, "topics": rows})


async def known_names(hub: Hub | None, session: Session) -> list[str]:
    """From the model where everything may be seen: a cluster may have thousands of them, and
    its whole metadata is much to ask for."""
    if hub is not None and session.access.is_unlimited:
        await hub.ready()
        return sorted(hub.model.topics, key=live.by_name)
    if hub is not None:
        await hub.ready()
    return sorted((await session.client.view()).topics, key=live.by_name)


async def matching(names: list[str], wanted: str) -> list[str]:
    """In pieces: there may be thousands."""
    found: list[str] = []
    for begin in range(0, len(names), NAMES_AT_ONCE):
        piece = names[begin : begin + NAMES_AT_ONCE]
        found += [name for name in piece if wanted in name.lower()]
        await asyncio.sleep(0)
    return found


def topic_row(hub: Hub | None, topic: TopicView, alive: list[int], lags: Lags) -> live.Document:
    states = {judge(each, alive, None).state for each in topic.partitions}
    records = None
    if hub is not None:
        known = [hub.model.partitions.get((topic.name, p.partition)) for p in topic.partitions]
        states = {each.state for each in known if each is not None} or states
        logs = [each.leader_log for each in known if each is not None]
        records = sum(log.high_watermark - log.log_start for log in logs if log is not None)
    return {
        "name": topic.name,
        "internal": topic.is_internal,
        "partitions": len(topic.partitions),
        "replication_factor": topic.replication_factor,
        "state": next((state for state in _WORST if state in states), HEALTHY),
        "bytes": None,
        "records": records,
        "in_rate": None,
        "groups": [{"group": group, "lag": lag} for group, lag in lags.get(topic.name, {}).items()],
    }


async def lags_of(session: Session, topics: Iterable[str]) -> Lags:
    """Of the groups that read these topics; nothing if the cluster has no time for it."""
    wanted = frozenset(topics)
    try:
        async with asyncio.timeout(FACTS_WITHIN_SECONDS):
            return await _lags(session, wanted)
    except (TimeoutError, ClientError, NetworkError):
        return {}


async def _lags(session: Session, wanted: frozenset[str]) -> Lags:
    admin = GroupAdmin(session.client)
    listed = (await admin.list_groups())[:MOST_GROUPS]
    committed = await asyncio.gather(
        *(admin.committed(each.group_id, coordinator=each.coordinator) for each in listed)
    )
    places = {where for each in committed for where in each if where[0] in wanted}
    ends = await end_offsets(session.client, places)
    lags: Lags = {}
    for group, offsets in zip(listed, committed, strict=True):
        for (topic, index), at in offsets.items():
            if topic in wanted and (topic, index) in ends:
                of_topic = lags.setdefault(topic, {})
                lag = max(0, ends[topic, index] - at.offset)
                of_topic[group.group_id] = of_topic.get(group.group_id, 0) + lag
    return lags


async def get_topic(request: Request) -> Response:
    session, hub = asking_session_of(request), console_of(request).hub
    topic = await named_topic(session.client, request.path_params["name"])
    lags = await lags_of(session, [topic.name])
    groups = [{"group": group, "lag": lag} for group, lag in lags.get(topic.name, {}).items()]
    return JSONResponse(
        {
            "name": topic.name,
            "internal": topic.is_internal,
            "partitions": await partition_rows(hub, session, topic),
            "configs": await config_rows(session, topic.name),
            "groups": groups,
        }
    )


async def partition_rows(
    hub: Hub | None, session: Session, topic: TopicView
) -> list[live.Document]:
    sizes = await sizes_of(session, topic)
    if hub is not None:
        await hub.ready()
        known = [hub.model.partitions.get((topic.name, p.partition)) for p in topic.partitions]
        if all(each is not None for each in known):
            rows = [live.row(each) for each in known if each is not None]
            return [{**row, "bytes": sizes.get(row["partition"])} for row in rows]
    alive = list((await session.client.brokers()).brokers)
    min_isr = min_isr_in(await topic_settings(session.client, topic.name))
    rows = []
    for each in topic.partitions:
        judgement = judge(each, alive, min_isr)
        start, end = None, None
        if judgement.state != OFFLINE:
            start, end = await offsets_of(session.client, each)
        rows.append(polled.row(each, judgement, min_isr, start, end))
    return [{**row, "bytes": sizes.get(row["partition"])} for row in rows]


async def sizes_of(session: Session, topic: TopicView) -> dict[int, int]:
    """Bytes of the leaders' logs, from those who tell."""
    sizes: dict[int, int] = {}
    leaders = {each.leader for each in topic.partitions if each.leader is not None}
    led = {each.partition: each.leader for each in topic.partitions}
    for broker in sorted(leaders):
        try:
            async with asyncio.timeout(FACTS_WITHIN_SECONDS):
                on_disk = await Admin(session.client).log_dirs(broker)
        except (TimeoutError, ClientError, NetworkError):
            continue
        for each in on_disk:
            if each.topic == topic.name and led.get(each.partition) == broker:
                sizes[each.partition] = each.size_bytes
    return sizes


async def config_rows(session: Session, topic: str) -> list[live.Document]:
    try:
        entries = await Admin(session.client).configs(TOPIC_RESOURCE, topic, documented=True)
    except ClientError:
        return []
    return [config_row(each) for each in sorted(entries)]


def config_row(entry: ConfigEntry) -> live.Document:
    return {
        "name": entry.name,
        "value": None if entry.sensitive else entry.value,
        "source": _SOURCES.get(entry.source, "default" if entry.is_default else "set"),
        "default": entry.default,
        "meaning": entry.meaning,
    }


async def create_topic(request: Request) -> Response:
    session = asking_session_of(request)
    body = await json_body(request)
    name, configs = body.get("name"), body.get("configs") or {}
    if not isinstance(name, str) or not name:
        raise bad_input("a topic needs a name", '"name": "orders"')
    if not isinstance(configs, dict) or not all(isinstance(v, str) for v in configs.values()):
        raise bad_input("configs have to be texts", '"configs": {"retention.ms": "1000"}')
    new = NewTopic(
        name,
        whole_in(body, "partitions"),
        whole_in(body, "replication_factor"),
        {str(key): value for key, value in configs.items()},
    )
    made = await Admin(session.client).create_topic(new)
    return JSONResponse(
        {
            "name": made.name,
            "partitions": made.partitions,
            "replication_factor": made.replication_factor,
        },
        201,
    )


def whole_in(body: Mapping[str, Any], name: str) -> int:
    """-1, as the cluster likes, if it is not given."""
    value = body.get(name)
    if value is None:
        return -1
    if type(value) is not int or not 0 < value <= 10_000:
        raise bad_input(f"{name} has to be a number from 1 to 10000", f'"{name}": 3')
    return value


async def delete_topic(request: Request) -> Response:
    session = asking_session_of(request)
    name = request.path_params["name"]
    await named_topic(session.client, name)
    await Admin(session.client).delete_topic(name)
    return JSONResponse({"deleted": name})


ROUTES = [
    Route("/api/topics", list_topics, methods=["GET"]),
    Route("/api/topics", create_topic, methods=["POST"]),
    Route("/api/topics/{name}", get_topic, methods=["GET"]),
    Route("/api/topics/{name}", delete_topic, methods=["DELETE"]),
]
