"""`/api/balance`: what it would change to give leaderships back, and doing it."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tidelog.client import Admin
from tidelog.client.errors import error_name
from tidelog.console.console import asking_session_of
from tidelog.console.live import Document
from tidelog.core.errors import Error
from tidelog.survey.leader_balance import BalancePlan, obstacle, plan

PARTITIONS_SHOWN = 200
FINE = (Error.NONE, Error.ELECTION_NOT_NEEDED)


async def get_plan(request: Request) -> Response:
    session = asking_session_of(request)
    return JSONResponse(document_of(plan(await session.client.view())))


async def apply_plan(request: Request) -> Response:
    """What has changed since the plan was shown is planned anew."""
    session = asking_session_of(request)
    moving = plan(await session.client.view()).moving
    results = await Admin(session.client).elect_leaders(moving) if moving else []
    failed = [
        f"{each.topic}-{each.partition}: {each.message or error_name(each.error)}"
        for each in results
        if each.error not in FINE
    ]
    return JSONResponse({"moved": len(moving) - len(failed), "failed": failed[:PARTITIONS_SHOWN]})


def document_of(found: BalancePlan) -> Document:
    return {
        "moving": len(found.moving),
        "brokers": [each._asdict() for each in found.shares],
        "partitions": [
            {
                "name": f"{each.topic}-{each.partition}",
                "leader": each.leader,
                "preferred": each.preferred,
                "obstacle": obstacle(each),
            }
            for each in found.away[:PARTITIONS_SHOWN]
        ],
    }


ROUTES = [
    Route("/api/balance", get_plan, methods=["GET"]),
    Route("/api/balance", apply_plan, methods=["POST"]),
]
