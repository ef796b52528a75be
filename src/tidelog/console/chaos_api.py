"""`/api/chaos`: faults as buttons, what is broken now, and undoing it."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tidelog.console import chaos
from tidelog.console.bodies import json_body
from tidelog.console.chaos import Chaos
from tidelog.console.console import console_of, session_of
from tidelog.console.refusal import Refused, bad_input
from tidelog.console.sessions import Session

KINDS = ("kill", "restart", "pause", "resume", "cut", "slow", "heal", "fill-disk", "free-disk")
WITHOUT_NODE = ("cut", "heal")
LATENCY_MAX_MS = 60_000


async def get_chaos(request: Request) -> Response:
    session = session_of(request)
    return JSONResponse(await document_of(await chaos_for(request, session)))


async def post_chaos(request: Request) -> Response:
    session = session_of(request)
    desk = await chaos_for(request, session)
    await perform(desk, session, await json_body(request))
    return JSONResponse(await document_of(desk))


async def undo(request: Request) -> Response:
    session = session_of(request)
    desk = await chaos_for(request, session)
    wanted = request.path_params["id"]
    found = next((each for each in await desk.active() if each["id"] == wanted), None)
    if found is None:
        error = f"nothing is broken by the name of {wanted[:40]!r}"
        raise Refused(HTTPStatus.NOT_FOUND, error, "/api/chaos lists what is")
    by, login, node = name_of(session), session.properties, found["node"]
    match found["kind"]:
        case chaos.KILL:
            await desk.restart(node, login)
        case chaos.PAUSE:
            await desk.act(chaos.resume(node), by)
        case chaos.SLOW:
            await desk.act(chaos.slow(node, 0, login), by)
        case chaos.FULL_DISK:
            await desk.act(chaos.fill_disk(node, login, full=False), by)
        case _:
            await desk.act(chaos.uncut(login), by)
    return JSONResponse(await document_of(desk))


async def chaos_for(request: Request, session: Session) -> Chaos:
    """Refused unless the cluster is local and the user may break it."""
    desk = console_of(request).chaos
    if desk is None:
        error = "only a cluster that runs in this directory can be broken from here"
        raise Refused(HTTPStatus.CONFLICT, error, "tidelog up, and the console that it starts")
    if not (await session.access.rights(session.client)).may_alter:
        error = f"{session.user} may not break this cluster"
        raise Refused(HTTPStatus.FORBIDDEN, error, "an ACL that allows Alter on the cluster")
    return desk


async def document_of(desk: Chaos) -> dict[str, Any]:
    nodes = desk.load()
    return {
        "active": await desk.active(),
        "kinds": list(KINDS),
        "nodes": [
            {"id": node.id, "roles": list(node.roles), "state": node.state}
            for node in nodes.state.nodes.values()
        ],
    }


async def perform(desk: Chaos, session: Session, body: Mapping[str, Any]) -> None:
    kind, by, login = body.get("kind"), name_of(session), session.properties
    known = desk.load().node_ids
    node = -1 if kind in WITHOUT_NODE else node_in(body, known)
    match kind:
        case "kill":
            await desk.act(chaos.kill(node), by)
        case "restart":
            await desk.restart(node, login)
        case "pause":
            await desk.act(chaos.pause(node), by)
        case "resume":
            await desk.act(chaos.resume(node), by)
        case "cut":
            await desk.act(chaos.cut(groups_in(body, known), login), by)
        case "slow":
            await desk.act(chaos.slow(node, latency_in(body), login), by)
        case "heal":
            await desk.act(chaos.heal(login), by)
        case "fill-disk" | "free-disk":
            await desk.act(chaos.fill_disk(node, login, full=kind == "fill-disk"), by)
        case _:
            raise bad_input(f"{kind!r:.40} is no fault", f"one of {', '.join(KINDS)}")


def name_of(session: Session) -> str:
    return session.user or "the console"


def node_in(body: Mapping[str, Any], known: list[int]) -> int:
    node = body.get("node")
    if body.get("kind") not in KINDS:
        raise bad_input(f"{body.get('kind')!r:.40} is no fault", f"one of {', '.join(KINDS)}")
    if type(node) is not int or node not in known:
        ids = ", ".join(map(str, known))
        raise bad_input(f"node has to be one of {ids}", f'"node": {known[0]}')
    return node


def groups_in(body: Mapping[str, Any], known: list[int]) -> list[list[int]]:
    groups = body.get("groups")
    if not groups and body.get("node") in known:
        groups = [[body["node"]]]
    if not isinstance(groups, list) or not groups or not all(map(_is_group, groups)):
        raise bad_input("groups have to be lists of nodes", '"groups": [[1], [2, 3]]')
    named = [each for group in groups for each in group]
    if len(set(named)) != len(named) or not set(named) <= set(known):
        raise bad_input("every node is in one group, and exists", '"groups": [[1], [2, 3]]')
    if len(groups) == 1:
        groups = [groups[0], [each for each in known if each not in named]]
    return groups


def _is_group(group: object) -> bool:
    return isinstance(group, list) and bool(group) and all(type(each) is int for each in group)


def latency_in(body: Mapping[str, Any]) -> int:
    latency = body.get("latency_ms")
    if type(latency) is not int or not 0 <= latency <= LATENCY_MAX_MS:
        error = f"latency_ms has to be a number from 0 to {LATENCY_MAX_MS}"
        raise bad_input(error, '"latency_ms": 80')
    return latency


ROUTES = [
    Route("/api/chaos", get_chaos, methods=["GET"]),
    Route("/api/chaos", post_chaos, methods=["POST"]),
    Route("/api/chaos/{id}", undo, methods=["DELETE"]),
]
