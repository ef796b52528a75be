"""`/api/overview`, `/api/brokers`, `/api/partition/…`, `/api/timeline`, `/api/metrics-view`."""

import asyncio
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from itertools import islice
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tidelog.client import Admin
from tidelog.client.admin import BROKER_RESOURCE
from tidelog.client.errors import ClientError
from tidelog.console import live
from tidelog.console.console import Console, console_of, session_of
from tidelog.console.hub import Hub, now_ms
from tidelog.console.partition_facts import facts_of
from tidelog.console.queries import number_in, parse_partition
from tidelog.console.refusal import Refused
from tidelog.console.sessions import Session
from tidelog.host.ports import NetworkError

EVENTS_PER_PAGE = 500
PARTITIONS_SHOWN = 500
FACTS_WITHIN_SECONDS = 1.5


async def hub_for(console: Console, session: Session) -> Hub | None:
    """The hub, if there is one and this user may see the whole cluster."""
    if console.hub is None:
        return None
    rights = await session.access.rights(session.client)
    if not rights.may_describe:
        return None
    await session.access.refresh(session.client)
    await console.hub.ready()
    return console.hub


async def get_overview(request: Request) -> Response:
    session = session_of(request)
    return JSONResponse(await overview_document(console_of(request), session))


async def overview_document(console: Console, session: Session) -> live.Document:
    hub = await hub_for(console, session)
    if hub is None:
        return await session.polled.overview()
    return live.overview(hub, session.access.sees)


async def get_brokers(request: Request) -> Response:
    session = session_of(request)
    hub = await hub_for(console_of(request), session)
    if hub is None:
        return JSONResponse((await session.polled.overview())["brokers"])
    return JSONResponse(live.brokers(hub))


async def get_broker(request: Request) -> Response:
    session, broker_id = session_of(request), int(request.path_params["id"])
    hub = await hub_for(console_of(request), session)
    known = live.brokers(hub) if hub else (await session.polled.overview())["brokers"]
    found = next((each for each in known if each["id"] == broker_id), None)
    if found is None:
        ids = ", ".join(str(each["id"]) for each in known)
        raise Refused(HTTPStatus.NOT_FOUND, f"there is no broker {broker_id}", f"one of {ids}")
    summary = hub.nodes[broker_id].summary if hub is not None else {}
    document = {
        **found,
        "disk_bytes": found["disk_bytes"] or await disk_bytes(session, broker_id),
        "partitions": await hosted_rows(hub, session, broker_id),
        "requests": summary.get("requests", {}),
        "config": await broker_config(session, broker_id),
        "findings": summary.get("findings", []),
    }
    return JSONResponse(document)


async def hosted_rows(hub: Hub | None, session: Session, broker_id: int) -> list[live.Document]:
    if hub is None:
        found = await session.polled.survey()
        return [
            {"name": f"{each.topic}-{each.partition}", "state": judgement.state}
            for each, judgement in found.partitions
            if broker_id in each.replicas
        ][:PARTITIONS_SHOWN]
    hosted = (p for p in hub.model.partitions.values() if broker_id in p.replicas)
    seen = (p for p in hosted if session.access.sees(p.key[0]))
    shown = sorted(islice(seen, PARTITIONS_SHOWN), key=lambda p: (live.by_name(p.key[0]), p.key))
    return [live.row(each) for each in shown]


async def disk_bytes(session: Session, broker_id: int) -> int | None:
    """What its logs take; None if it does not say so soon."""
    try:
        async with asyncio.timeout(FACTS_WITHIN_SECONDS):
            on_disk = await Admin(session.client).log_dirs(broker_id)
    except (TimeoutError, ClientError, NetworkError):
        return None
    return sum(each.size_bytes for each in on_disk)


async def broker_config(session: Session, broker_id: int) -> list[live.Document]:
    """Empty if the broker is gone or the user may not see it."""
    try:
        async with asyncio.timeout(FACTS_WITHIN_SECONDS):
            entries = await Admin(session.client).configs(BROKER_RESOURCE, str(broker_id))
    except (TimeoutError, ClientError, NetworkError):
        return []
    return [
        {
            "name": each.name,
            "value": None if each.sensitive else each.value,
            "source": "default" if each.is_default else "set",
            "read_only": each.read_only,
        }
        for each in entries
    ]


async def get_partition(request: Request) -> Response:
    session = session_of(request)
    topic, index = parse_partition(request.path_params["name"])
    return JSONResponse(await partition_document(console_of(request), session, topic, index))


async def partition_document(
    console: Console, session: Session, topic: str, index: int
) -> live.Document:
    document = None
    if console.hub is not None:
        document = await live_partition(console.hub, session, topic, index)
    if document is None:
        document = await session.polled.partition(topic, index)
    document.update(await facts_of(session.client, topic, index))
    return document


async def live_partition(hub: Hub, session: Session, topic: str, index: int) -> Any:
    """None if the hub knows of none that the user may see: the cluster has the last word."""
    await session.access.refresh(session.client)
    await hub.ready()
    if not session.access.sees(topic):
        return None
    await hub.look_once((topic, index))
    known = hub.model.partitions.get((topic, index))
    return None if known is None else live.partition_document(hub, known)


async def get_timeline(request: Request) -> Response:
    session = session_of(request)
    hub = await hub_for(console_of(request), session)
    limit = min(number_in(request, "limit", 200), EVENTS_PER_PAGE)
    before = number_in(request, "before", 0) if "before" in request.query_params else None
    if hub is None:
        return JSONResponse({"events": [], "oldest": None})
    chosen = matching(hub.timeline, request.query_params)
    seen = [
        each
        for each in chosen
        if (before is None or each["place"] < before) and live.may_see(each, session.access.sees)
    ]
    page = seen[-limit:] if limit else []
    oldest = page[0]["place"] if len(seen) > len(page) and page else None
    return JSONResponse({"events": page, "oldest": oldest})


def matching(events: Iterable[live.Document], query: Mapping[str, str]) -> list[live.Document]:
    partition, broker = query.get("partition"), query.get("broker")
    return [
        each
        for each in events
        if (not partition or each.get("partition") == partition)
        and (not broker or str(each["node"]) == broker or str(each.get("broker")) == broker)
    ]


async def get_metrics(request: Request) -> Response:
    session = session_of(request)
    hub = await hub_for(console_of(request), session)
    since = number_in(request, "since", 0)
    if hub is not None:
        hub.want_charts()
    series = {} if hub is None else hub.history.since(since)
    return JSONResponse({"series": series, "now_ms": now_ms()})


ROUTES = [
    Route("/api/overview", get_overview, methods=["GET"]),
    Route("/api/brokers", get_brokers, methods=["GET"]),
    Route("/api/brokers/{id:int}", get_broker, methods=["GET"]),
    Route("/api/partition/{name}", get_partition, methods=["GET"]),
    Route("/api/timeline", get_timeline, methods=["GET"]),
    Route("/api/metrics-view", get_metrics, methods=["GET"]),
]
