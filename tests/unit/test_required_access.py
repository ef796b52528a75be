"""Every API without and with the rule that Kafka wants for it."""

from types import SimpleNamespace
from typing import Any

import pytest

from support.required_access import (
    BROKER_ROWS,
    CONTROLLER_ROWS,
    LISTINGS,
    G,
    Listing,
    Row,
    T,
    codes,
    rule,
)
from tidelog.broker.access import GuardedMetadata, guards
from tidelog.broker.handlers import forwarded
from tidelog.controller.api_table import HANDLES
from tidelog.core.security.acls import Operation, ResourceType
from tidelog.core.security.authorizer import Authorizer
from tidelog.core.security.principal import Principal
from tidelog.rpc import Call, Caller, Handler
from tidelog.rpc.authorization.gate import Gate
from tidelog.rpc.authorization.guards import guarded
from tidelog.rpc.authorization.table import CONTROLLER, FREE
from tidelog.wire.protocol import (
    Message,
    RequestHeader,
    decode_response,
    request_class,
    response_class,
)
from tidelog.wire.protocol.schemas import (
    metadata_request,
    metadata_response,
    offset_fetch_response,
)

ALICE = Caller("PLAINTEXT", "10.0.0.7", Principal("User", "alice"))
METADATA, OFFSET_FETCH = 3, 9


class Slot:
    def __init__(self) -> None:
        self.frames: list[bytes] = []

    def answer(self, parts: Any) -> None:
        self.frames.append(b"".join(bytes(part) for part in parts))

    def answer_nothing(self) -> None:
        self.frames.append(b"")


def nobody_home() -> Any:
    """A broker, as far as guards look at it: without fetch sessions."""
    sessions = SimpleNamespace(find=lambda _id: None)
    return SimpleNamespace(
        fetches=SimpleNamespace(sessions=sessions),
        metadata=None,
        config=SimpleNamespace(auto_create_topics=False),
    )


def gate_with(rules: Any) -> Gate:
    authorizer = Authorizer()
    authorizer.load({b"%016d" % n: rule(*needed) for n, needed in enumerate(rules)})
    authorizer.ready = True
    return Gate(authorizer, lambda _id: T, lambda _refusal: None)


def behind_guards(where: str, gate: Gate, key: int, handler: Handler) -> Handler:
    if where == "controller":
        return guarded(gate, CONTROLLER[key], handler)
    if key == METADATA:
        return GuardedMetadata(gate, nobody_home(), handler).handle
    return guarded(gate, guards(nobody_home())[key], handler)


def answered(serve: Handler, request: Message, version: int) -> Any:
    slot, connection = Slot(), None
    header = RequestHeader(request.__api_key__, version, 7, "client")
    serve(Call(header, request, slot, connection, ALICE))  # type: ignore[arg-type]
    (frame,) = slot.frames
    return decode_response(frame, request.__api_key__, version)[1]


def asked(where: str, row: Row, version: int, rules: Any) -> tuple[bool, set[int]]:
    """Whether the handler was reached, and which errors were answered."""
    reached = []

    def handler(call: Call) -> None:
        reached.append(call)
        make: Any = response_class(row.key)
        if row.key == OFFSET_FETCH:
            groups = [offset_fetch_response.OffsetFetchResponseGroup(group_id=G)]
            call.answer(make(groups=groups))
        else:
            call.answer(make())

    serve = behind_guards(where, gate_with(rules), row.key, handler)
    errors = codes(answered(serve, row.request(), version))
    return bool(reached), errors


TABLES = [
    *(("broker", row) for row in BROKER_ROWS),
    *(("controller", row) for row in CONTROLLER_ROWS),
]


def in_part(row: Row) -> bool:
    """What is left of the request is served, though it may be nothing."""
    return row.key in (METADATA, OFFSET_FETCH)


@pytest.mark.parametrize(("where", "row"), TABLES, ids=str)
def test_an_api_is_served_with_its_rules_and_refused_without_any_one_of_them(where, row):
    for version in row.versions:
        reached, errors = asked(where, row, version, ())
        assert errors == {row.error}, version
        assert not reached or in_part(row), version
        assert asked(where, row, version, row.rules) == (True, set()), version
    for missing in row.rules:
        rest = [each for each in row.rules if each is not missing]
        reached, errors = asked(where, row, row.versions[-1], rest)
        assert errors, missing
        assert not reached or in_part(row)


@pytest.mark.parametrize("version", [10, 11])
@pytest.mark.parametrize("name", ["secret", None])
def test_an_id_opens_no_other_topic_to_versions_that_ask_by_name(version, name):
    """Metadata v10 and v11 have a field for ids, which does not count. It once opened any topic to
    whoever may describe one, and without a right to that one the answer could not be encoded."""
    described = []

    def handler(call: Call) -> None:
        described.extend(topic.name for topic in call.request.topics)
        call.answer(metadata_response.MetadataResponse())

    for rules in ((), ((Operation.DESCRIBE, ResourceType.TOPIC),)):
        topic = metadata_request.MetadataRequestTopic(name=name, topic_id=bytes(range(16)))
        request = metadata_request.MetadataRequest(topics=[topic])
        serve = behind_guards("broker", gate_with(rules), METADATA, handler)
        refused = [each.name for each in answered(serve, request, version).topics]
        assert refused == ([] if name is None else [name])
    assert set(described) <= {None}


@pytest.mark.parametrize("listing", LISTINGS, ids=str)
def test_a_list_has_what_may_be_seen(listing: Listing):
    make: Any = request_class(listing.key)

    def seen(version: int, *rules: Any) -> Any:
        request = make()
        if hasattr(request, "include_cluster_authorized_operations"):
            request.include_cluster_authorized_operations = True
        serve = behind_guards(
            "broker", gate_with(rules), listing.key, lambda call: call.answer(listing.answer())
        )
        found = answered(serve, request, version)
        assert codes(found) == set(), "nobody is refused"
        return getattr(found, listing.seen)

    for version in listing.versions:
        assert not seen(version), version
        for enough in listing.enough:
            assert seen(version, enough), (version, enough)


def test_every_guard_has_a_row():
    tested = {row.key for row in (*BROKER_ROWS, *LISTINGS)}
    assert {*guards(nobody_home()), METADATA} == tested
    assert {row.key for row in CONTROLLER_ROWS} == CONTROLLER.keys()
    assert CONTROLLER.keys() - FREE >= HANDLES.keys() - FREE
    assert forwarded.ROWS.keys() <= CONTROLLER.keys()
    assert tested.isdisjoint(FREE)
