"""What librdkafka's and franz-go's own tests expect of requests about rules, users and quotas."""

import json
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from e2e.test_secure_clients import by_password
from e2e.test_secure_refusals import ACCESS, WithBob
from support.raw_tls import RawTls
from support.secure_nodes import GUARD_S, SecureNodes
from tidelog.core.errors import Error
from tidelog.observe.audit_topic import AUDIT_TOPIC
from tidelog.wire.protocol.schemas import alter_client_quotas_request as alter
from tidelog.wire.protocol.schemas import describe_client_quotas_request as describe
from tidelog.wire.protocol.schemas.describe_acls_request import DescribeAclsRequest
from tidelog.wire.protocol.schemas.describe_user_scram_credentials_request import (
    DescribeUserScramCredentialsRequest,
    UserName,
)

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
ANY_TYPE, ANY_PATTERN = ResourceType.ANY, ResourcePatternType.ANY


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureNodes]:
    with WithBob(tmp_path_factory.mktemp("admin"), config=ACCESS) as nodes:
        yield nodes


@pytest.fixture
def admin(nodes: SecureNodes) -> AdminClient:
    return AdminClient(by_password(nodes))


@pytest.fixture
def bob(nodes: SecureNodes) -> AdminClient:
    return AdminClient(by_password(nodes, password="ebb", **{"sasl.username": "bob"}))


def error_of(future) -> int:
    with pytest.raises(KafkaException) as refused:
        future.result(GUARD_S)
    return refused.value.args[0].code()


def rule(name="orders", *, kind=ResourceType.TOPIC, pattern=ResourcePatternType.LITERAL, **given):
    return AclBinding(
        kind,
        name,
        pattern,
        given.get("principal", "User:carol"),
        given.get("host", "*"),
        given.get("operation", AclOperation.READ),
        given.get("permission", AclPermissionType.ALLOW),
    )


def wanted(name=None, kind=ANY_TYPE, pattern=ANY_PATTERN, principal=None):
    return AclBindingFilter(
        kind, name, pattern, principal, None, AclOperation.ANY, AclPermissionType.ANY
    )


# ---- rules


def test_rules_are_created_described_and_deleted_by_filters(admin):
    prefixed = rule("ord", pattern=ResourcePatternType.PREFIXED)
    group = rule("readers", kind=ResourceType.GROUP)
    denied = rule(operation=AclOperation.WRITE, permission=AclPermissionType.DENY, host="10.0.0.1")
    rules = [rule(), prefixed, group, denied]
    for _ in range(2):  # a rule that is there already is no error
        for future in admin.create_acls(rules).values():
            assert future.result(GUARD_S) is None
    described = {
        "all": admin.describe_acls(wanted()),
        "of orders": admin.describe_acls(wanted("orders", pattern=ResourcePatternType.MATCH)),
        "literal": admin.describe_acls(wanted(pattern=ResourcePatternType.LITERAL)),
        "of nobody": admin.describe_acls(wanted(principal="User:nobody")),
    }
    found = {name: set(future.result(GUARD_S)) for name, future in described.items()}
    assert found == {
        "all": set(rules),
        "of orders": {rule(), prefixed, denied},
        "literal": {rule(), group, denied},
        "of nobody": set(),
    }
    filters = [wanted(kind=ResourceType.GROUP), wanted("nothing"), wanted("orders")]
    removed = admin.delete_acls(filters)
    assert [set(removed[each].result(GUARD_S)) for each in filters] == [
        {group},
        set(),
        {rule(), denied},
    ]
    assert set(admin.describe_acls(wanted()).result(GUARD_S)) == {prefixed}


def test_rules_that_make_no_sense_are_refused_alone(admin):
    good = rule("good")
    bad = [rule("bad", principal="carol"), rule("other", kind=ResourceType.BROKER)]
    futures = admin.create_acls([*bad, good])
    assert error_of(futures[bad[0]]) == KafkaError.INVALID_REQUEST
    assert futures[good].result(GUARD_S) is None


def test_a_user_without_rights_is_refused(bob):
    denied = KafkaError.CLUSTER_AUTHORIZATION_FAILED
    (created,) = bob.create_acls([rule()]).values()
    (deleted,) = bob.delete_acls([wanted()]).values()
    (altered,) = bob.alter_user_scram_credentials([upsert("bob")]).values()
    assert [error_of(each) for each in (created, deleted, altered)] == [denied] * 3


def test_rules_and_users_are_described_to_nobody_without_rights(nodes):
    """As by Kafka: an error for all, and one for each user. librdkafka 2.16 overlooks the first
    in DescribeAcls and crashes at it in DescribeUserScramCredentials, so it does not ask here."""
    refusal = (Error.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
    with RawTls(nodes.port(1, "CLIENTS"), nodes.ca_file) as connection:
        connection.log_in("bob", "sand")
        rules = connection.ask(DescribeAclsRequest(), 3)
        assert (rules.error_code, rules.error_message, rules.resources) == (*refusal, [])
        for asked in ([], ["alice", "bob"]):
            users = [UserName(name=each) for each in asked]
            answer = connection.ask(DescribeUserScramCredentialsRequest(users=users), 0)
            assert (answer.error_code, answer.error_message) == refusal
            told = [(each.user, each.error_code, each.error_message) for each in answer.results]
            assert told == [(each, *refusal) for each in asked]


# ---- the audit trail


def test_refused_writes_and_created_topics_are_in_the_audit_topic(nodes, admin, bob):
    (created,) = admin.create_topics([NewTopic("audited", 1)]).values()
    created.result(GUARD_S)
    as_bob = by_password(nodes, password="ebb", **{"sasl.username": "bob"})
    producer = Producer(as_bob)
    refused = []
    producer.produce("audited", b"v", on_delivery=lambda error, _: refused.append(error.code()))
    producer.flush(GUARD_S)
    assert refused == [KafkaError.TOPIC_AUTHORIZATION_FAILED]
    wanted = {
        ("AdministrativeChange", "User:alice", "CreateTopics", "topic audited"),
        ("AccessDenied", "User:bob", "Metadata", "topic audited"),
    }
    assert audited(nodes, admin, wanted) >= wanted
    assert AUDIT_TOPIC not in bob.list_topics(timeout=GUARD_S).topics


def audited(nodes, admin, wanted):
    """What the topic holds, read until everything that is wanted was there."""
    deadline = time.monotonic() + GUARD_S
    while AUDIT_TOPIC not in admin.list_topics(timeout=GUARD_S).topics:
        assert time.monotonic() < deadline, "the first thing to tell did not create the topic"
    consumer = Consumer(by_password(nodes, **{"group.id": "auditor"}))
    consumer.assign([TopicPartition(AUDIT_TOPIC, 0, OFFSET_BEGINNING)])
    found = set()
    try:
        while not wanted <= found and time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is None:
                continue
            assert message.error() is None, message.error()
            value = json.loads(message.value())
            what = value.get("subject") or value["resource"]
            found.add((value["event"], value["principal"], value["api"], what))
    finally:
        consumer.close()
    return found


# ---- users


def upsert(user, mechanism=SHA_256, iterations=4096):
    info = ScramCredentialInfo(mechanism, iterations)
    return UserScramCredentialUpsertion(user, info, b"ebb and flow", b"a salt of sixteen")


def credentials(admin, user):
    described = admin.describe_user_scram_credentials([user])[user].result(GUARD_S)
    return [(each.mechanism, each.iterations) for each in described.scram_credential_infos]


def test_users_are_made_altered_described_and_removed(admin):
    changes = [upsert("dora"), upsert("dora", SHA_512, 8192)]
    assert admin.alter_user_scram_credentials(changes)["dora"].result(GUARD_S) is None
    assert sorted(credentials(admin, "dora"), key=str) == [(SHA_256, 4096), (SHA_512, 8192)]
    changes = [upsert("dora", iterations=5000), UserScramCredentialDeletion("dora", SHA_512)]
    assert admin.alter_user_scram_credentials(changes)["dora"].result(GUARD_S) is None
    assert credentials(admin, "dora") == [(SHA_256, 5000)]
    everybody = admin.describe_user_scram_credentials().result(GUARD_S)
    assert {"alice", "bob", "dora"} <= everybody.keys()
    gone = [UserScramCredentialDeletion("dora", SHA_256)]
    assert admin.alter_user_scram_credentials(gone)["dora"].result(GUARD_S) is None
    unknown = admin.describe_user_scram_credentials(["dora"])["dora"]
    assert error_of(unknown) == KafkaError.RESOURCE_NOT_FOUND


def test_what_is_wrong_with_one_user_does_not_harm_another(admin):
    changes = [
        UserScramCredentialDeletion("unknown", SHA_256),
        upsert("few", iterations=4095),
        upsert("many", iterations=16385),
        upsert("twice"),
        upsert("twice"),
        upsert("good"),
    ]
    futures = admin.alter_user_scram_credentials(changes)
    assert futures["good"].result(GUARD_S) is None
    assert {user: error_of(future) for user, future in futures.items() if user != "good"} == {
        "unknown": KafkaError.RESOURCE_NOT_FOUND,
        "few": KafkaError.UNACCEPTABLE_CREDENTIAL,
        "many": KafkaError.UNACCEPTABLE_CREDENTIAL,
        "twice": KafkaError.DUPLICATE_RESOURCE,
    }
    assert credentials(admin, "good") == [(SHA_256, 4096)]


# ---- quotas, which librdkafka does not speak of


def entry(*, user="erin", remove=False, **values):
    return alter.EntryData(
        entity=[alter.EntityData(entity_type="user", entity_name=user)],
        ops=[alter.OpData(key=key, value=value, remove=remove) for key, value in values.items()],
    )


def quotas(connection, **match):
    component = describe.ComponentData(entity_type="user", **match)
    answer = connection.ask(describe.DescribeClientQuotasRequest(components=[component]), 1)
    assert answer.error_code == 0, answer
    return {
        each.entity[0].entity_name: {value.key: value.value for value in each.values}
        for each in answer.entries
    }


def altered(connection, *entries, validate_only=False):
    request = alter.AlterClientQuotasRequest(entries=[*entries], validate_only=validate_only)
    return [each.error_code for each in connection.ask(request, 1).entries]


def test_quotas_are_set_described_and_removed(nodes):
    with RawTls(nodes.port(1, "CLIENTS"), nodes.ca_file) as connection:
        connection.log_in("alice", "tide")
        named = {"match_type": 0, "match": "erin"}
        assert altered(connection, entry(producer_byte_rate=1.0), validate_only=True) == [0]
        assert quotas(connection, **named) == {}
        rates = {"producer_byte_rate": 1024.0, "consumer_byte_rate": 2048.0}
        wrong = entry(user="frank", no_such_rate=1.0)
        assert altered(connection, entry(**rates), wrong) == [0, Error.INVALID_REQUEST]
        assert altered(connection, entry(user=None, producer_byte_rate=9.0)) == [0]
        assert quotas(connection, **named) == {"erin": rates}
        assert quotas(connection, match_type=1, match=None) == {None: {"producer_byte_rate": 9.0}}
        assert quotas(connection, match_type=2, match=None).keys() == {"erin", None}
        assert altered(connection, entry(remove=True, consumer_byte_rate=0.0)) == [0]
        assert quotas(connection, **named) == {"erin": {"producer_byte_rate": 1024.0}}


def test_quotas_are_no_business_of_a_user_without_rights(nodes):
    with RawTls(nodes.port(1, "CLIENTS"), nodes.ca_file) as connection:
        connection.log_in("bob", "sand")
        denied = Error.CLUSTER_AUTHORIZATION_FAILED
        assert altered(connection, entry(producer_byte_rate=1.0)) == [denied]
        answer = connection.ask(describe.DescribeClientQuotasRequest(), 1)
        assert answer.error_code == denied
