"""Access rules: made, found and removed; and asked for the client behind a broker."""

import asyncio
from typing import Any

import pytest

from support.controller_node import ControllerNode
from support.guarded import ADMIN, ALICE, CLUSTER, Guarded
from support.lone_broker import lone_broker
from support.loopback import loopback, run, until
from tidelog.core.errors import Error
from tidelog.core.metadata import records as r
from tidelog.core.metadata.records import AccessControlEntry
from tidelog.core.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from tidelog.core.security.principal import Principal
from tidelog.rpc import Call, Caller
from tidelog.rpc.envelope import decode_principal, encode_principal, unwrapped, wrapped
from tidelog.wire.protocol import ProtocolError, RequestHeader
from tidelog.wire.protocol.schemas import create_acls_request as new
from tidelog.wire.protocol.schemas import delete_acls_request as old
from tidelog.wire.protocol.schemas.create_acls_response import CreateAclsResponse
from tidelog.wire.protocol.schemas.create_topics_request import (
    CreatableTopic,
    CreateTopicsRequest,
)
from tidelog.wire.protocol.schemas.create_topics_response import CreateTopicsResponse
from tidelog.wire.protocol.schemas.delete_acls_response import DeleteAclsResponse
from tidelog.wire.protocol.schemas.describe_acls_request import DescribeAclsRequest
from tidelog.wire.protocol.schemas.describe_acls_response import DescribeAclsResponse
from tidelog.wire.protocol.schemas.envelope_request import EnvelopeRequest
from tidelog.wire.protocol.schemas.envelope_response import EnvelopeResponse

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
READ = Acl(TOPIC, "orders", PatternType.LITERAL, "User:bob", "*", Operation.READ, Permission.ALLOW)
WRITE = READ._replace(operation=Operation.WRITE)
PREFIXED = READ._replace(resource_name="ord", pattern_type=PatternType.PREFIXED)
ALL_RULES = (READ, WRITE, PREFIXED)


def creation(acl: Acl) -> new.AclCreation:
    return new.AclCreation(
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        resource_pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def tell(story) -> None:
    async def told() -> None:
        async with loopback() as network:
            node, guarded = ControllerNode(network, authorizer=True), Guarded()
            node.wrap = guarded.of_controller
            await node.open()
            node.quorum.elect()
            await until(lambda: node.image.features)
            try:
                await story(node, guarded)
            finally:
                await node.close()

    run(told)


async def create(node: ControllerNode, *acls: Acl, version: int = 3) -> list[int]:
    request = new.CreateAclsRequest(creations=[creation(acl) for acl in acls])
    answer = await node.ask(request, version, CreateAclsResponse)
    return [each.error_code for each in answer.results]


async def delete(node: ControllerNode, *filters: old.DeleteAclsFilter) -> list[list[str]]:
    request = old.DeleteAclsRequest(filters=list(filters))
    answer = await node.ask(request, 3, DeleteAclsResponse)
    assert {each.error_code for each in answer.filter_results} <= {Error.NONE}
    return [
        sorted(each.resource_name for each in found.matching_acls)
        for found in answer.filter_results
    ]


def wanted(name: str | None = None, pattern: int = 1, **given) -> old.DeleteAclsFilter:
    rest = {"principal_filter": None, "host_filter": None, **given}
    return old.DeleteAclsFilter(
        resource_type_filter=1,
        resource_name_filter=name,
        pattern_type_filter=pattern,
        operation=1,
        permission_type=1,
        **rest,
    )


@pytest.mark.parametrize("version", [1, 2, 3])
def test_rules_are_made_once_and_removed_by_filters(version) -> None:
    async def story(node: ControllerNode, guarded: Guarded) -> None:
        guarded.principal = ADMIN
        assert await create(node, READ, READ, PREFIXED, version=version) == [0, 0, 0]
        assert await create(node, READ, WRITE, version=version) == [0, 0]
        assert sorted(node.image.acls.values()) == sorted(ALL_RULES)
        nonsense = READ._replace(principal="bob")
        assert await create(node, nonsense, READ) == [Error.INVALID_REQUEST, 0]
        match = wanted("orders", PatternType.MATCH)
        both = await delete(node, match, wanted("ord", PatternType.PREFIXED), wanted("nothing"))
        assert both == [["ord", "orders", "orders"], ["ord"], []]
        assert node.image.acls == {}

    tell(story)


def test_the_rules_of_one_request_come_into_force_together() -> None:
    """Whoever is given two rights never has one of them alone, on any node."""

    async def story(node: ControllerNode, guarded: Guarded) -> None:
        guarded.principal = ADMIN
        node.quorum.held = True
        nonsense = READ._replace(principal="bob")
        asked = asyncio.ensure_future(create(node, READ, nonsense, WRITE, PREFIXED))
        await until(lambda: len(node.quorum.log) > node.quorum.committed)
        (entry,) = node.quorum.log[node.quorum.committed :]
        assert [each.acl for each in entry.records if isinstance(each, AccessControlEntry)] == [
            READ,
            WRITE,
            PREFIXED,
        ]
        node.quorum.held = False
        node.quorum.commit()
        assert await asked == [0, Error.INVALID_REQUEST, 0, 0]

    tell(story)


def test_rules_are_made_only_by_whoever_may_alter_the_cluster() -> None:
    async def story(node: ControllerNode, guarded: Guarded) -> None:
        assert await create(node, READ, WRITE) == [Error.CLUSTER_AUTHORIZATION_FAILED] * 2
        guarded.allow(Operation.ALTER, CLUSTER)
        assert await create(node, READ) == [0]
        (refusal,) = guarded.refusals
        assert (refusal.caller.principal, refusal.operation) == (ALICE, Operation.ALTER)

    tell(story)


# ---- envelopes


def asked_by(caller: Caller) -> Call:
    """A call of this client to some broker."""
    nowhere: Any = None
    header = RequestHeader(19, 7, 0, "tool")
    return Call(header, CreateTopicsRequest(), nowhere, nowhere, caller)


def topic(name: str) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=-1, replication_factor=-1)


async def through(node: ControllerNode, principal: Principal, *topics: str) -> list[int]:
    request = CreateTopicsRequest(topics=[topic(name) for name in topics])
    caller = Caller("PLAINTEXT", "10.0.0.7", principal)
    answer = await node.ask(wrapped(request, 7, asked_by(caller)), 0, EnvelopeResponse)
    assert answer.error_code == Error.NONE
    inner = unwrapped(answer, 19, 7)
    assert isinstance(inner, CreateTopicsResponse)
    by_name = {each.name: each.error_code for each in inner.topics}
    return [by_name[name] for name in topics]


def test_a_client_behind_a_broker_may_do_what_the_client_may() -> None:
    async def story(node: ControllerNode, guarded: Guarded) -> None:
        guarded.principal = ADMIN  # the broker
        await node.start_brokers(1)
        guarded.allow(Operation.CREATE, TOPIC, "mine")
        denied = Error.TOPIC_AUTHORIZATION_FAILED
        assert await through(node, ALICE, "mine", "yours") == [Error.NONE, denied]
        assert list(node.image.topic_ids) == ["mine"]
        assert guarded.refusals[-1].caller == Caller("CONTROLLER", "10.0.0.7", ALICE)

    tell(story)


def test_not_everybody_may_speak_for_others() -> None:
    async def story(node: ControllerNode, guarded: Guarded) -> None:
        eve = asked_by(Caller("", "10.0.0.7", ADMIN))
        request = wrapped(CreateTopicsRequest(), 7, eve)
        answer = await node.ask(request, 0, EnvelopeResponse)
        assert answer.error_code == Error.CLUSTER_AUTHORIZATION_FAILED
        guarded.allow(Operation.CLUSTER_ACTION, CLUSTER)
        assert (await node.ask(request, 0, EnvelopeResponse)).error_code == Error.NONE
        unsigned = EnvelopeRequest(request_data=request.request_data, request_principal=None)
        refused = await node.ask(unsigned, 0, EnvelopeResponse)
        assert refused.error_code == Error.PRINCIPAL_DESERIALIZATION_FAILURE
        nested = wrapped(request, 0, eve)
        refused = await node.ask(nested, 0, EnvelopeResponse)
        assert refused.error_code == Error.INVALID_REQUEST

    tell(story)


def test_a_principal_is_written_as_kafka_writes_it() -> None:
    assert encode_principal(ALICE) == b"\0\0\x05User\x06alice\0\0"
    assert decode_principal(b"\0\0\x05User\x06alice\0\0") == ALICE
    for damaged in (b"", b"\0\1\x05User\x06alice\0\0", b"\0\0\x05User\x07alice", b"\0\0\x01\x01\0"):
        with pytest.raises(ProtocolError):
            decode_principal(damaged)


# ---- a broker tells the rules


def test_rules_are_described_by_resource(tmp_path) -> None:
    async def story() -> None:
        given = {"authorizer_class_name": AUTHORIZER}
        async with lone_broker(tmp_path, (29,), **given) as s:
            for number, acl in enumerate(ALL_RULES):
                s.commit(r.AccessControlEntry(b"%016d" % number, acl))

            async def found(**asked):
                rest = {"principal_filter": None, "host_filter": None, "operation": 1}
                request = DescribeAclsRequest(
                    **{
                        "resource_type_filter": 1,
                        "resource_name_filter": None,
                        "pattern_type_filter": 1,
                        "permission_type": 1,
                        **rest,
                        **asked,
                    }
                )
                answer = await s.ask(request, 3)
                assert isinstance(answer, DescribeAclsResponse)
                return answer.error_code or [
                    (each.resource_name, [rule.operation for rule in each.acls])
                    for each in answer.resources
                ]

            assert await found() == [("orders", [3, 4]), ("ord", [3])]
            assert await found(operation=4) == [("orders", [4])]
            assert await found(resource_name_filter="orders") == [("orders", [3, 4])]
            assert await found(principal_filter="User:eve") == []
            assert await found(resource_type_filter=0) == Error.INVALID_REQUEST

    run(story)


AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
