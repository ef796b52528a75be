"""`/api/records`: pages, a live tail, and producing."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tidelog.client import Client, TopicView
from tidelog.client.offsets import LATEST, find_offset
from tidelog.client.partitioner import partition_of_key
from tidelog.client.producer import NewRecord
from tidelog.console import sse
from tidelog.console.bodies import json_body
from tidelog.console.console import Console, asking_session_of, console_of, refuse_many_viewers
from tidelog.console.live import Document
from tidelog.console.queries import number_in
from tidelog.console.record_pages import read_page
from tidelog.console.refusal import bad_input
from tidelog.console.sessions import Session
from tidelog.survey.positions import parse_position, resolve
from tidelog.survey.topics import named_topic

LIMIT, LIMIT_MAX = 50, 500
MOST_PARTITIONS = 32
TAIL_SECONDS = 0.2
TAIL_RECORDS = 100
"""For each look at a partition; what comes faster than that is skipped, and said to be."""
VALUE_MAX = 1024 * 1024


async def get_records(request: Request) -> Response:
    client, query = asking_session_of(request).client, request.query_params
    topic = await named_topic(client, topic_in(query))
    limit = min(number_in(request, "limit", LIMIT), LIMIT_MAX)
    position = parse_position(query.get("from") or f"-{LIMIT}", option="from")
    key = query["key"].encode() if query.get("key") else None
    pages = []
    for index in chosen_partitions(request, topic, key):
        start = await resolve(client, topic.name, index, position)
        pages.append(await read_page(client, topic.name, index, start, limit=limit, key=key))
    if len(pages) == 1:
        page = pages[0]
        return JSONResponse(
            {
                "records": page.records,
                "next": page.next_offset,
                "start": page.start,
                "end": page.end,
            }
        )
    records = [record for page in pages for record in page.records]
    records.sort(key=lambda each: (each["timestamp_ms"], each["partition"], each["offset"]))
    shown = records[-limit:] if limit else []
    return JSONResponse({"records": shown, "next": None, "start": None, "end": None})


def topic_in(query: Mapping[str, str]) -> str:
    topic = query.get("topic", "")
    if not topic:
        raise bad_input("which topic is not said", "topic=orders")
    return topic


def chosen_partitions(request: Request, topic: TopicView, key: bytes | None) -> list[int]:
    """The one that is named, the one that a key belongs to, or all."""
    count = len(topic.partitions)
    if request.query_params.get("partition"):
        index = number_in(request, "partition", 0)
        if index >= count:
            raise bad_input(f"{topic.name} has the partitions 0 to {count - 1}", "partition=0")
        return [index]
    if key is not None:
        return [partition_of_key(key, count)]
    return list(range(min(count, MOST_PARTITIONS)))


async def get_tail(request: Request) -> Response:
    session = asking_session_of(request)
    refuse_many_viewers(console_of(request))
    topic = await named_topic(session.client, topic_in(request.query_params))
    positions = {}
    for index in chosen_partitions(request, topic, None):
        found = await find_offset(session.client, topic.name, index, LATEST)
        positions[index] = found.offset
    resumed = resumed_positions(request.headers.get("last-event-id", ""))
    positions.update((index, at) for index, at in resumed.items() if index in positions)
    return sse.stream_response(tail(console_of(request), session, topic.name, positions))


def resumed_positions(text: str) -> dict[int, int]:
    """`0:15,1:7`"""
    found = {}
    for part in filter(None, text.split(",")):
        index, _, offset = part.partition(":")
        if not all(each.isascii() and each.isdigit() for each in (index, offset)):
            raise bad_input(f"{text[:60]!r} is not the id of a message", "connect without it")
        found[int(index)] = int(offset)
    return found


async def tail(
    console: Console, session: Session, topic: str, positions: dict[int, int]
) -> AsyncGenerator[bytes, None]:
    with console.viewing():
        yield sse.RETRY
        while not console.closing.is_set() and console.sessions.is_open(session):
            async for message in tail_once(session.client, topic, positions):
                yield message
            yield sse.KEEP_ALIVE
            with suppress(TimeoutError):
                async with asyncio.timeout(TAIL_SECONDS):
                    await console.closing.wait()


async def tail_once(
    client: Client, topic: str, positions: dict[int, int]
) -> AsyncGenerator[bytes, None]:
    """What has come since the positions, which move on."""
    for index, position in positions.items():
        page = await read_page(client, topic, index, position, limit=TAIL_RECORDS)
        positions[index] = max(position, page.next_offset)
        for record in page.records:
            where = {**positions, index: record["offset"] + 1}
            cursor = ",".join(f"{part}:{offset}" for part, offset in where.items())
            yield sse.message("record", record, cursor)
        behind = page.end - positions[index]
        if behind > TAIL_RECORDS:
            positions[index] = page.end - TAIL_RECORDS
            skipped = {"partition": index, "skipped": behind - TAIL_RECORDS}
            yield sse.message("skipped", skipped)


async def produce(request: Request) -> Response:
    session = asking_session_of(request)
    body = await json_body(request)
    topic = await named_topic(session.client, topic_in({"topic": text_in(body, "topic") or ""}))
    index = body.get("partition")
    if index is not None and (type(index) is not int or index < 0):
        raise bad_input("partition has to be a number, or null", '"partition": null')
    record = NewRecord(
        bytes_in(body, "value"), bytes_in(body, "key"), headers_in(body), partition=index
    )
    written = (await session.producer.write(topic.name, [record]))[0]
    document: Document = {"partition": written.partition, "offset": written.base_offset}
    return JSONResponse(document)


def text_in(body: Mapping[str, Any], name: str) -> str | None:
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise bad_input(f"{name} has to be a text, or null", f'"{name}": "…"')
    return value


def bytes_in(body: Mapping[str, Any], name: str) -> bytes | None:
    text = text_in(body, name)
    if text is None:
        return None
    data = text.encode("utf-8", "surrogatepass")
    if len(data) > VALUE_MAX:
        raise bad_input(f"{name} has more than {VALUE_MAX} bytes", "something smaller")
    return data


def headers_in(body: Mapping[str, Any]) -> tuple[tuple[str, bytes | None], ...]:
    given = body.get("headers") or []
    if not isinstance(given, list) or not all(_is_header(each) for each in given):
        raise bad_input("headers have to be pairs of texts", '"headers": [["trace", "7"]]')
    return tuple((name, None if value is None else value.encode()) for name, value in given)


def _is_header(each: object) -> bool:
    if not isinstance(each, list) or len(each) != 2 or not isinstance(each[0], str):
        return False
    return each[1] is None or isinstance(each[1], str)


ROUTES = [
    Route("/api/records", get_records, methods=["GET"]),
    Route("/api/records", produce, methods=["POST"]),
    Route("/api/records/tail", get_tail, methods=["GET"]),
]
