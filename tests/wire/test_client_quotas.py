"""Quotas for clients: what may be set, and what a filter finds."""

from pathlib import Path

import pytest

from support import loopback
from support.controller_node import ControllerNode, controller_node
from support.lone_broker import lone_broker
from tidelog.core.errors import Error
from tidelog.core.metadata import records as r
from tidelog.wire.protocol.schemas import alter_client_quotas_request as ask
from tidelog.wire.protocol.schemas.alter_client_quotas_response import AlterClientQuotasResponse
from tidelog.wire.protocol.schemas.describe_client_quotas_request import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from tidelog.wire.protocol.schemas.describe_client_quotas_response import (
    DescribeClientQuotasResponse,
)

ANN = (("user", "ann"),)


def entry(entity, **changes: float | None) -> ask.EntryData:
    return ask.EntryData(
        entity=[ask.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        ops=[
            ask.OpData(key=key, value=value or 0.0, remove=value is None)
            for key, value in changes.items()
        ],
    )


async def alter(node: ControllerNode, *entries: ask.EntryData, dry: bool = False) -> list[int]:
    request = ask.AlterClientQuotasRequest(entries=list(entries), validate_only=dry)
    answer = await node.ask(request, 1, AlterClientQuotasResponse)
    return [each.error_code for each in answer.entries]


def test_quotas_are_set_changed_and_removed(tell) -> None:
    async def story():
        async with controller_node() as node:
            both = (("client-id", None), ("user", "ann"))
            changes = entry(ANN, producer_byte_rate=1000.0, request_percentage=12.5)
            assert await alter(node, changes, dry=True) == [0]
            assert node.image.client_quotas == {}
            assert await alter(node, changes, entry(both[::-1], consumer_byte_rate=5.0)) == [0, 0]
            assert node.image.client_quotas == {
                ANN: {"producer_byte_rate": 1000.0, "request_percentage": 12.5},
                both: {"consumer_byte_rate": 5.0},
            }
            gone = entry(both, consumer_byte_rate=None)
            assert await alter(node, gone, entry(ANN, request_percentage=None)) == [0, 0]
            assert node.image.client_quotas == {ANN: {"producer_byte_rate": 1000.0}}

    tell(story)


@pytest.mark.parametrize(
    "wrong",
    [
        entry((), producer_byte_rate=1.0),
        entry((("planet", "mars"),), producer_byte_rate=1.0),
        entry((("user", ""),), producer_byte_rate=1.0),
        entry((("user", "a"), ("user", "b")), producer_byte_rate=1.0),
        entry((("user", "a"), ("ip", "127.0.0.1")), producer_byte_rate=1.0),
        entry((("ip", "not an address"),), connection_creation_rate=1.0),
        entry((("ip", "127.0.0.1"),), producer_byte_rate=1.0),
        entry(ANN, connection_creation_rate=1.0),
        entry(ANN, bytes=1.0),
        entry(ANN, producer_byte_rate=1.5),
        entry(ANN, producer_byte_rate=-1.0),
        entry(ANN, request_percentage=float("nan")),
    ],
)
def test_what_kafka_refuses_is_refused_for_that_entity_alone(wrong: ask.EntryData) -> None:
    async def story():
        async with controller_node() as node:
            fine = entry((("ip", None),), connection_creation_rate=7.0)
            assert await alter(node, wrong, fine) == [Error.INVALID_REQUEST, 0]
            assert node.image.client_quotas == {(("ip", None),): {"connection_creation_rate": 7.0}}

    loopback.run(story)


QUOTAS = {
    "user ann": ANN,
    "any user": (("user", None),),
    "client c": (("client-id", "c"),),
    "ann with c": (("client-id", "c"), ("user", "ann")),
    "address": (("ip", "127.0.0.1"),),
}
EXACT, DEFAULT, ANY = range(3)


@pytest.mark.parametrize(
    ("parts", "strict", "found"),
    [
        ((), False, set(QUOTAS)),
        ((), True, set()),
        ((("user", EXACT, "ann"),), False, {"user ann", "ann with c"}),
        ((("user", EXACT, "ann"),), True, {"user ann"}),
        ((("user", DEFAULT, None),), True, {"any user"}),
        ((("user", ANY, None),), True, {"user ann", "any user"}),
        ((("user", ANY, None),), False, {"user ann", "any user", "ann with c"}),
        ((("user", ANY, None), ("client-id", EXACT, "c")), True, {"ann with c"}),
        ((("ip", ANY, None),), False, {"address"}),
        ((("user", EXACT, "ann"), ("user", EXACT, "bob")), False, Error.INVALID_REQUEST),
        ((("user", ANY, None), ("ip", ANY, None)), False, Error.INVALID_REQUEST),
        ((("user", 3, None),), False, Error.INVALID_REQUEST),
        ((("user", EXACT, None),), False, Error.INVALID_REQUEST),
        ((("planet", EXACT, "mars"),), False, Error.UNSUPPORTED_VERSION),
    ],
)
def test_a_filter_finds_what_kafka_would_find(tmp_path: Path, parts, strict, found) -> None:
    async def story():
        async with lone_broker(tmp_path, (48,)) as s:
            for entity in QUOTAS.values():
                s.commit(r.ClientQuota(entity, "producer_byte_rate", 1.0))
            components = [
                ComponentData(entity_type=kind, match_type=how, match=name)
                for kind, how, name in parts
            ]
            answer = await s.ask(
                DescribeClientQuotasRequest(components=components, strict=strict), 1
            )
            assert isinstance(answer, DescribeClientQuotasResponse)
            if isinstance(found, Error):
                assert (answer.error_code, answer.entries) == (found, None)
                return
            entities = {
                tuple((part.entity_type, part.entity_name) for part in each.entity)
                for each in answer.entries or ()
            }
            assert entities == {QUOTAS[name] for name in found}

    loopback.run(story)
