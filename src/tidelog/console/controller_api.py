"""`/api/controller`: the metadata quorum, its log, and who is registered."""

from collections.abc import Iterable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tidelog.client import Admin
from tidelog.client.admin import QuorumReplica
from tidelog.console import live
from tidelog.console.console import asking_session_of, console_of
from tidelog.console.hub import Hub
from tidelog.console.node_client import NodeSilent
from tidelog.console.overview_api import hub_for

LAST_ENTRIES = 200


async def get_controller(request: Request) -> Response:
    session = asking_session_of(request)
    quorum = await Admin(session.client).quorum()
    hub = await hub_for(console_of(request), session)

    def rows(replicas: Iterable[QuorumReplica], role: str) -> list[live.Document]:
        return [
            {
                "id": each.id,
                "role": "leader" if each.id == quorum.leader else role,
                "log_end": each.log_end_offset,
                "lag": max(0, quorum.high_watermark - each.log_end_offset),
            }
            for each in replicas
        ]

    return JSONResponse(
        {
            "quorum": {
                "leader": quorum.leader,
                "epoch": quorum.leader_epoch,
                "high_watermark": quorum.high_watermark,
                "voters": rows(quorum.voters, "voter"),
                "observers": rows(quorum.observers, "observer"),
            },
            "log": [] if hub is None else await log_tail(hub),
            "pending_isr": [] if hub is None else pending_isr(hub, session.access.sees),
            "registrations": [] if hub is None else registrations(hub),
        }
    )


async def log_tail(hub: Hub) -> list[Any]:
    """The end of the metadata log, newest last, from whoever leads the quorum."""
    controller = live.active_controller(hub)
    if controller is None:
        return []
    try:
        told = await hub.client(controller.id).get(f"/metadata-log?last={LAST_ENTRIES}")
    except NodeSilent:
        return []
    entries: list[Any] = told["log"]
    return entries[-LAST_ENTRIES:]


def pending_isr(hub: Hub, sees: live.Sees) -> list[live.Document]:
    """Proposals of leaders that no committed in-sync set has followed yet."""
    waiting: dict[str, live.Document] = {}
    for event in hub.timeline:
        name = event.get("partition")
        if not isinstance(name, str) or not live.may_see(event, sees):
            continue
        if event["kind"] == "IsrProposed":
            waiting[name] = {
                "partition": name,
                "broker": event["broker"],
                "isr": event["isr"],
                "proposed": event["proposed"],
                "wall_ms": event["wall_ms"],
            }
        elif event["kind"] in ("IsrCommitted", "IsrChanged", "LeaderElected"):
            waiting.pop(name, None)
    return list(waiting.values())


def registrations(hub: Hub) -> list[live.Document]:
    controller = live.active_controller(hub)
    known = [] if controller is None else controller.summary.get("brokers", [])
    return [
        {
            "broker": each["broker"],
            "broker_epoch": each["broker_epoch"],
            "fenced": each["fenced"],
            "in_controlled_shutdown": each["in_controlled_shutdown"],
            "endpoints": [f"{name}://{host}:{port}" for name, host, port in each["endpoints"]],
        }
        for each in known
    ]


ROUTES = [Route("/api/controller", get_controller, methods=["GET"])]
