"""`/api/lab`: stories to play, plays, and seeds of the simulator."""

import re
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from tidelog.console.bodies import json_body
from tidelog.console.chaos_api import chaos_for
from tidelog.console.console import console_of, session_of
from tidelog.console.lab_desk import LabDesk, LabThread
from tidelog.console.lab_seeds import LARGEST_SEED, Document, Seed
from tidelog.console.refusal import bad_input

_MUTANT = re.compile(r"[A-Za-z0-9_-]{1,40}")


async def list_stories(request: Request) -> Response:
    return JSONResponse(await _desk_of(request).simulator.perform(lambda work: work.stories()))


async def begin(request: Request) -> Response:
    desk = _desk_of(request)
    body = await json_body(request)
    story, on, step = _text(body, "story"), body.get("on", "sim"), _number(body, "step", 0)
    thread = desk.thread_on(on)
    if thread is not desk.simulator:
        await chaos_for(request, session_of(request))  # a story kills brokers
    play = await thread.perform(lambda work: work.begin(story, step))
    return JSONResponse(play, HTTPStatus.CREATED)


async def show(request: Request) -> Response:
    thread, play = _play_of(request)
    return JSONResponse(await thread.perform(lambda work: work.show(play)))


async def remove(request: Request) -> Response:
    thread, play = _play_of(request)
    return JSONResponse(await thread.perform(lambda work: work.remove(play)))


async def step(request: Request) -> Response:
    thread, play = _play_of(request)
    await json_body(request)
    return JSONResponse(await thread.perform(lambda work: work.step(play)))


async def back(request: Request) -> Response:
    thread, play = _play_of(request)
    await json_body(request)
    return JSONResponse(await thread.perform(lambda work: work.back(play)))


async def goto(request: Request) -> Response:
    thread, play = _play_of(request)
    wanted = _number(await json_body(request), "step")
    return JSONResponse(await thread.perform(lambda work: work.goto(play, wanted)))


async def fork(request: Request) -> Response:
    thread, play = _play_of(request)
    await json_body(request)
    other = await thread.perform(lambda work: work.fork(play))
    return JSONResponse(other, HTTPStatus.CREATED)


async def perform(request: Request) -> Response:
    thread, play = _play_of(request)
    command = _text(await json_body(request), "command")
    return JSONResponse(await thread.perform(lambda work: work.perform(play, command)))


async def seed(request: Request) -> Response:
    desk, number = _desk_of(request), str(request.path_params["number"])
    mutant = request.query_params.get("mutant")
    if not (number.isascii() and number.isdigit() and int(number[:20]) <= LARGEST_SEED):
        raise bad_input(f"a seed is a number up to {LARGEST_SEED}", "/api/lab/seed/7")
    if mutant is not None and not _MUTANT.fullmatch(mutant):
        raise bad_input("that is no name of a mutant", "tidelog sim mutants --help")
    return JSONResponse(await desk.seed(Seed(int(number), mutant)))


def _desk_of(request: Request) -> LabDesk:
    session_of(request)
    return console_of(request).lab


def _play_of(request: Request) -> tuple[LabThread, str]:
    play = str(request.path_params["play"])
    return _desk_of(request).thread_of(play), play


def _text(body: Document, name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str):
        raise bad_input(f"{name} has to be a text", f'{{"{name}": "…"}}')
    return value


def _number(body: Document, name: str, default: int | None = None) -> int:
    value = body.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool):
        raise bad_input(f"{name} has to be a whole number", f'{{"{name}": 1}}')
    return value


PLAYS = "/api/lab/plays"
PLAY = PLAYS + "/{play}"
ROUTES: list[BaseRoute] = [
    Route("/api/lab", list_stories, methods=["GET"]),
    Route(PLAYS, begin, methods=["POST"]),
    Route(PLAY, show, methods=["GET"]),
    Route(PLAY, remove, methods=["DELETE"]),
    Route(PLAY + "/step", step, methods=["POST"]),
    Route(PLAY + "/back", back, methods=["POST"]),
    Route(PLAY + "/goto", goto, methods=["POST"]),
    Route(PLAY + "/fork", fork, methods=["POST"]),
    Route(PLAY + "/perform", perform, methods=["POST"]),
    Route("/api/lab/seed/{number}", seed, methods=["GET"]),
]
