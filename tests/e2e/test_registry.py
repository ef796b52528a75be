"""A registry on a real cluster: asked plainly, by serializers, twice at once, and after a crash."""

import json
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest
from click.testing import CliRunner
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.timestamp_pb2 import Timestamp

from support import registries
from support.commands import tidelog
from tidelog.cli.main import cli
from tidelog.registry.languages.protobuf import file_of
from tidelog.testing import Cluster

JSON_TYPE = "application/vnd.schemaregistry.v1+json"
PROTO = """
syntax = "proto3"; package shop; import "google/protobuf/timestamp.proto";
message Other {} message Shop { message Order { int32 id = 1; google.protobuf.Timestamp at = 2; } }
"""
ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
NOTE = {"name": "note", "type": ["null", "string"], "default": None}
WITH_NOTE = {**ORDER, "fields": [*ORDER["fields"], NOTE]}
NEEDS_SIZE = {**ORDER, "fields": [*ORDER["fields"], {"name": "size", "type": "int"}]}


def compact(document):
    return json.dumps(document, separators=(",", ":"))


@pytest.fixture(scope="module")
def cluster():
    with Cluster(brokers=1) as running:
        yield running


@pytest.fixture(scope="module")
def registry(cluster):
    with registries.running(cluster.bootstrap_servers) as running:
        yield running


@pytest.fixture(scope="module")
def other(cluster):
    with registries.running(cluster.bootstrap_servers) as running:
        yield running


@pytest.fixture
def client(registry):
    with SchemaRegistryClient({"url": registry.url}) as asking:
        yield asking


def there_and_back(client, topic, serializer, deserializer, value):
    context = SerializationContext(topic, MessageField.VALUE)
    data = serializer(value, context)
    assert data[0] == 0
    return deserializer(data, context)


def test_avro_serializers_of_confluent_work_unchanged(client):
    write = AvroSerializer(client, json.dumps(WITH_NOTE))
    order = {"id": 7, "note": "soon"}
    assert there_and_back(client, "avro", write, AvroDeserializer(client), order) == order


def test_json_serializers_of_confluent_work_unchanged(client):
    schema = {"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}}}
    write = JSONSerializer(json.dumps(schema), client)
    read = JSONDeserializer(json.dumps(schema), schema_registry_client=client)
    assert there_and_back(client, "json", write, read, {"id": 7}) == {"id": 7}


def test_protobuf_serializers_of_confluent_work_unchanged(client):
    pool = descriptor_pool.Default()
    pool.Add(file_of(PROTO, "registry_test.proto", ()))
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Shop.Order"))
    order = kind(id=7, at=Timestamp(seconds=9))
    write = ProtobufSerializer(kind, client, {"use.deprecated.format": False})
    read = ProtobufDeserializer(kind, {"use.deprecated.format": False}, client)
    assert there_and_back(client, "proto", write, read, order) == order
    own = ProtobufSerializer(Timestamp, client, {"use.deprecated.format": False})
    assert own(order.at, SerializationContext("google", MessageField.VALUE))


def test_a_subject_grows_by_schemas_that_read_the_latest(registry, client):
    first = registry.register("grows", ORDER)
    assert (first.status, list(first.document), first.content_type) == (200, ["id"], JSON_TYPE)
    assert registry.register("grows", ORDER) == first
    assert registry.register("grows", WITH_NOTE).status == 200
    refused = registry.register("grows", NEEDS_SIZE)
    assert (refused.status, refused.document["error_code"]) == (409, 409)
    assert "size" in refused.document["message"]
    asked = {"schema": json.dumps(NEEDS_SIZE)}
    path = "/compatibility/subjects/grows/versions/latest"
    assert registry.ask("POST", path, asked).document == {"is_compatible": False}
    verbose = registry.ask("POST", f"{path}?verbose=true", asked).document
    assert "reader_field_missing_default_value" in verbose["messages"][0]
    assert client.set_compatibility("grows", "NONE") == {"compatibility": "NONE"}
    assert registry.register("grows", NEEDS_SIZE).status == 200
    with pytest.raises(SchemaRegistryError) as wrong:
        client.set_compatibility("grows", "SOME")
    assert wrong.value.error_code == 42203
    assert registry.get("/subjects/grows/versions") == [1, 2, 3]


def test_what_a_registry_answers(registry):
    made = registry.register("golden", ORDER).document["id"]
    text = compact(ORDER)
    latest = {"subject": "golden", "version": 1, "id": made, "schema": text}
    assert registry.get("/subjects/golden/versions/latest") == latest
    assert registry.ask("POST", "/subjects/golden", {"schema": text}).document == latest
    assert registry.get(f"/schemas/ids/{made}") == {"schema": text}
    assert registry.get(f"/schemas/ids/{made}/schema") == ORDER
    assert {"subject": "golden", "version": 1} in registry.get(f"/schemas/ids/{made}/versions")
    assert "golden" in registry.get(f"/schemas/ids/{made}/subjects")
    assert registry.get("/subjects?subjectPrefix=gold") == ["golden"]
    assert registry.get("/schemas/types") == ["JSON", "PROTOBUF", "AVRO"]
    assert registry.get("/config") == {"compatibilityLevel": "BACKWARD"}
    assert registry.get("/mode") == {"mode": "READWRITE"}
    assert registry.get("/") == {}
    spaced = registry.register("golden", json.dumps(ORDER, indent=3, sort_keys=True))
    assert spaced.document == {"id": made}


REFUSED = [
    ("GET", "/subjects/none/versions", None, 404, 40401),
    ("GET", "/subjects/refuses/versions/9", None, 404, 40402),
    ("GET", "/subjects/refuses/versions/0", None, 422, 42202),
    ("GET", "/schemas/ids/99999", None, 404, 40403),
    ("GET", "/schemas/ids/" + "9" * 5000, None, 404, 404),
    ("POST", "/subjects/refuses", {"schema": '"int"'}, 404, 40403),
    ("POST", "/subjects/refuses/versions", {"schema": "{"}, 422, 42201),
    ("POST", "/subjects/refuses/versions", {"schema": '"int"', "schemaType": "X"}, 422, 42201),
    ("POST", "/subjects/refuses/versions", {}, 422, 422),
    ("POST", "/subjects/refuses/versions", {"schema": '"long"', "id": 7}, 422, 42205),
    ("DELETE", "/subjects/refuses?permanent=true", None, 404, 40405),
    ("DELETE", "/subjects/refuses/versions/1?permanent=true", None, 404, 40407),
    ("GET", "/config/refuses", None, 404, 40408),
    ("GET", "/mode/refuses", None, 404, 40409),
    ("PUT", "/mode/refuses", {"mode": "SLEEP"}, 422, 42204),
    ("GET", "/nothing/here", None, 404, 404),
    ("PUT", "/subjects", {}, 405, 405),
]


@pytest.mark.parametrize("asked", REFUSED, ids=lambda asked: f"{asked[4]}")
def test_what_is_wrong_is_told_by_its_code(registry, asked):
    method, path, body, status, code = asked
    registry.register("refuses", '"long"')
    answer = registry.ask(method, path, body)
    assert (answer.status, answer.document["error_code"]) == (status, code)
    assert answer.document["message"]
    assert answer.content_type == JSON_TYPE


def test_deleting_is_first_soft_and_then_for_good(registry):
    made = registry.register("deleted/one", ORDER).document["id"]
    registry.register("deleted/one", WITH_NOTE)
    assert registry.ask("DELETE", "/subjects/deleted%2Fone/versions/latest").document == 2
    gone = registry.ask("DELETE", "/subjects/deleted%2Fone/versions/2")
    assert gone.document["error_code"] == 40406
    assert registry.get("/subjects/deleted%2Fone/versions?deleted=true") == [1, 2]
    assert registry.ask("DELETE", "/subjects/deleted%2Fone").document == [1]
    assert registry.ask("DELETE", "/subjects/deleted%2Fone").document["error_code"] == 40404
    assert "deleted/one" not in registry.get("/subjects")
    assert "deleted/one" in registry.get("/subjects?deleted=true")
    assert registry.get(f"/schemas/ids/{made}")["schema"] == compact(ORDER)
    assert registry.ask("DELETE", "/subjects/deleted%2Fone?permanent=true").document == [1, 2]
    assert "deleted/one" not in registry.get("/subjects?deleted=true")


def test_a_schema_that_others_refer_to_stays(registry):
    colour = {"type": "enum", "name": "shop.Colour", "symbols": ["RED"]}
    registry.register("colours", colour)
    car = {"type": "record", "name": "Car", "fields": [{"name": "c", "type": "shop.Colour"}]}
    reference = {"name": "shop.Colour", "subject": "colours", "version": 1}
    body = {"schema": json.dumps(car), "references": [reference]}
    made = registry.ask("POST", "/subjects/cars/versions", body).document["id"]
    assert registry.get(f"/schemas/ids/{made}")["references"] == [reference]
    assert registry.get("/subjects/colours/versions/1/referencedby") == [made]
    assert registry.ask("DELETE", "/subjects/colours").document["error_code"] == 42206
    body["references"] = [{**reference, "version": 5}]
    lost = registry.ask("POST", "/subjects/cars/versions", body)
    assert lost.document["error_code"] == 42201


def test_a_read_only_subject_takes_nothing_and_an_import_brings_its_ids(registry):
    registry.ask("PUT", "/mode/kept", {"mode": "READONLY"})
    assert registry.register("kept", ORDER).document["error_code"] == 42205
    assert registry.ask("DELETE", "/mode/kept").document == {"mode": "READONLY"}
    assert registry.register("kept", ORDER).status == 200
    registry.ask("PUT", "/mode/brought", {"mode": "IMPORT"})
    body = {"schema": '{"type":"fixed","name":"F","size":3}', "id": 5000, "version": 4}
    assert registry.ask("POST", "/subjects/brought/versions", body).document == {"id": 5000}
    assert registry.get("/subjects/brought/versions") == [4]
    taken = registry.ask("POST", "/subjects/brought/versions", {**body, "schema": '"string"'})
    assert taken.document["error_code"] == 42205


def test_two_registries_never_give_one_id_twice(registry, other):
    def register(number):
        one = registry if number % 2 else other
        schema = {"type": "fixed", "name": f"F{number}", "size": number + 1}
        answer = one.register(f"race-{number // 2}", schema)
        return number, answer

    for subject in range(6):
        registry.ask("PUT", f"/config/race-{subject}", {"compatibility": "NONE"})
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(register, range(12)))
    ids = [answer.document.get("id") for _, answer in answers]
    assert None not in ids, answers
    assert len(set(ids)) == 12
    for number, answer in answers:
        asked = other if number % 2 else registry  # the one that did not register it
        found = asked.get(f"/schemas/ids/{answer.document['id']}")["schema"]
        assert json.loads(found)["name"] == f"F{number}"
    for subject in range(6):
        assert registry.get(f"/subjects/race-{subject}/versions") == [1, 2]


def test_everything_is_there_after_a_restart_in_the_words_of_confluents_topic(cluster):
    topic = ("--topic", "schemas-kept")
    with registries.running(cluster.bootstrap_servers, *topic) as first:
        first.register("kept-value", ORDER)
        first.ask("PUT", "/config/kept-value", {"compatibility": "FULL"})
        before = first.get("/schemas")
        assert "schemas-kept is read: 0 subjects; serving" in first.stop()
    read = tidelog(cluster, "consume", "schemas-kept", "--from", "start", "--to", "end", "--json")
    lines = [json.loads(line) for line in read.stdout.splitlines()]
    assert [(each["key"], each["value"]) for each in lines] == [
        (
            '{"keytype":"SCHEMA","subject":"kept-value","version":1,"magic":1}',
            compact(
                {"subject": "kept-value", "version": 1, "id": 1, "schema": compact(ORDER)}
                | {"deleted": False}
            ),
        ),
        (
            '{"keytype":"CONFIG","subject":"kept-value","magic":0}',
            '{"compatibilityLevel":"FULL"}',
        ),
    ]
    with registries.running(cluster.bootstrap_servers, *topic) as second:
        assert second.get("/schemas") == before
        assert second.get("/config/kept-value") == {"compatibilityLevel": "FULL"}


def test_strangers_are_refused_and_a_cluster_that_is_not_there_is_asked_again(tmp_path):
    users = tmp_path / "users.txt"
    for password in ("first", "second"):
        added = CliRunner().invoke(
            cli, ["registry", "add-user", str(users), "ann", "--password", password]
        )
        assert added.exit_code == 0, added.stderr
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        port = nobody.getsockname()[1]
        given = ("--timeout", "100ms", "--users", str(users))
        registry = registries.start(f"127.0.0.1:{port}", *given)
        try:
            for login in ("", "ann:first", "bob:second", "ann"):
                refused = registry.ask("GET", "/subjects", login=login)
                assert (refused.status, refused.document["error_code"]) == (401, 40101)
            answer = registry.ask("GET", "/subjects", login="ann:second")
            assert (answer.status, answer.document["error_code"]) == (503, 50301)
            assert registry.ask("GET", "/health").document["status"] == "not ready"
        finally:
            said = registry.stop()
        assert "cannot be reached" in said
    users.write_text("ann:second\n")
    wrong = CliRunner().invoke(cli, ["registry", "start", "--users", str(users), "-b", "x:1"])
    assert wrong.exit_code == 2
    assert "line 1 is not name:scrypt:salt:hash" in wrong.stderr


def test_a_topic_that_forgets_is_refused(cluster):
    cluster.topic("forgets")
    started = registries.start(cluster.bootstrap_servers, "--topic", "forgets")
    _, said = started.process.communicate(timeout=registries.WITHIN_SECONDS)
    assert started.process.returncode == 1
    assert "cleanup.policy=delete, it must be compact" in said
