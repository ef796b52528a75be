"""Which schemas may follow which, in each language, and which texts are the same schema."""

import base64
import json

import pytest

from tidelog.registry.languages.parsing import LEVELS, parse, problems
from tidelog.registry.languages.protobuf import usual_json_name
from tidelog.registry.languages.words import AVRO, JSON, PROTOBUF, InvalidSchema, Reference, Schema


def nothing(reference):
    raise InvalidSchema(f"there is no {reference.name}")


def avro(*fields, name="Order"):
    return parse(
        Schema(AVRO, json.dumps({"type": "record", "name": name, "fields": fields})), nothing
    )


def json_schema(**document):
    return parse(Schema(JSON, json.dumps(document)), nothing)


def proto(body, syntax="proto3"):
    return parse(Schema(PROTOBUF, f'syntax = "{syntax}"; package shop; {body}'), nothing)


def reads(reader, writer):
    return not reader.problems_reading(writer)


ID = {"name": "id", "type": "long"}
NOTE = {"name": "note", "type": ["null", "string"], "default": None}


def test_avro_reads_what_has_a_default_and_what_may_be_widened():
    old, new = avro(ID), avro(ID, NOTE)
    assert reads(new, old)
    assert reads(old, new)
    needs = avro(ID, {"name": "note", "type": "string"})
    (problem,) = needs.problems_reading(old)
    assert "note" in problem
    assert reads(avro({"name": "id", "type": "double"}), old)
    assert not reads(avro({"name": "id", "type": "int"}), old)
    assert not reads(avro(ID, name="Bill"), old)
    colours = {"name": "c", "type": {"type": "enum", "name": "C", "symbols": ["RED", "BLUE"]}}
    fewer = {"name": "c", "type": {"type": "enum", "name": "C", "symbols": ["RED"]}}
    assert reads(avro(colours), avro(fewer))
    assert not reads(avro(fewer), avro(colours))


def test_avro_knows_references_and_refuses_what_is_no_schema():
    used = Schema(AVRO, json.dumps({"type": "enum", "name": "shop.Colour", "symbols": ["RED"]}))
    text = json.dumps(
        {"type": "record", "name": "Order", "fields": [{"name": "c", "type": "shop.Colour"}]}
    )
    schema = Schema(AVRO, text, (Reference("shop.Colour", "colours", 1),))
    assert parse(schema, lambda reference: used).identity
    with pytest.raises(InvalidSchema, match=r"there is no shop\.Colour"):
        parse(schema, nothing)
    for wrong in ("{", '"no-type"', '{"type": "record"}', "[]x", '{"type":"record","name":1}', "7"):
        with pytest.raises(InvalidSchema):
            parse(Schema(AVRO, wrong), nothing)


CLOSED = {"type": "object", "additionalProperties": False}


@pytest.mark.parametrize(
    ("reader", "writer", "fine"),
    [
        ({"type": "number"}, {"type": "integer"}, True),
        ({"type": "integer"}, {"type": "number"}, False),
        ({"type": ["string", "null"]}, {"type": "string"}, True),
        ({"maximum": 10}, {"type": "number", "maximum": 5}, True),
        ({"type": "number", "maximum": 5}, {"type": "number", "maximum": 10}, False),
        ({"type": "string", "maxLength": 9}, {"type": "string"}, False),
        ({"enum": ["a", "b"]}, {"enum": ["a"]}, True),
        ({"enum": ["a"]}, {"enum": ["a", "b"]}, False),
        ({"type": "string", "pattern": "a"}, {"type": "string"}, False),
        ({"type": "array", "items": {"type": "number"}}, {"type": "array"}, False),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"type": "null"}, True),
        ({"type": "string"}, {"oneOf": [{"type": "string"}, {"type": "null"}]}, False),
        ({"allOf": [{"type": "number"}, {"minimum": 1}]}, {"type": "number"}, False),
        ({"not": {"type": "string"}}, {"type": "number"}, False),
        (True, {"type": "string"}, True),
        (False, {"type": "string"}, False),
        # Whoever may write anything under a name may have written something else there.
        ({"type": "object", "properties": {"a": {"type": "string"}}}, {"type": "object"}, False),
        ({**CLOSED, "properties": {"a": {"type": "string"}}}, CLOSED, True),
        (CLOSED, {**CLOSED, "properties": {"a": {"type": "string"}}}, False),
        ({"type": "object"}, {**CLOSED, "properties": {"a": {"type": "string"}}}, True),
        ({**CLOSED, "properties": {"a": {}}, "required": ["a"]}, CLOSED, False),
        ({**CLOSED, "properties": {"a": {"default": 1}}, "required": ["a"]}, CLOSED, True),
        ({"$ref": "#/$defs/x", "$defs": {"x": {"type": "string"}}}, {"type": "string"}, True),
        ({"$ref": "#/$defs/y"}, {"type": "string"}, False),
        (CLOSED, {**CLOSED, "patternProperties": {"^x": {}}}, False),
        ({"type": "object"}, {**CLOSED, "patternProperties": {"^x": {}}}, True),
        (
            {"type": "array", "items": {"type": "integer"}},
            {"type": "array", "items": {"type": "integer"}, "prefixItems": [{}]},
            False,
        ),
    ],
)
def test_a_json_schema_reads_another_if_it_accepts_all_that_the_other_does(reader, writer, fine):
    def parsed(document):
        return parse(Schema(JSON, json.dumps(document)), nothing)

    assert reads(parsed(reader), parsed(writer)) == fine
    assert reads(parsed(reader), parsed(reader)) == (reader != {"$ref": "#/$defs/y"})


def test_json_schemas_may_refer_to_themselves_and_wrong_ones_are_refused():
    tree = {"type": "object", "properties": {"left": {"$ref": "#"}}, "additionalProperties": False}
    assert reads(json_schema(**tree), json_schema(**tree))
    for wrong in ('{"type": "text"}', "3", '{"minimum": "x"}', "{"):
        with pytest.raises(InvalidSchema):
            parse(Schema(JSON, wrong), nothing)


def test_protobuf_knows_fields_by_their_numbers():
    old = proto("message Order { int32 id = 1; string note = 2; }")
    assert reads(proto("message Order { int64 number = 1; bytes note = 2; bool new = 3; }"), old)
    assert reads(proto("message Order { int32 id = 1; }"), old)
    for wrong, told in (
        ("message Order { string id = 1; }", "string does not read int32"),
        ("message Order { repeated int32 id = 1; }", "a list"),
        ("message Bill { int32 id = 1; }", "message Order is not there"),
        ("message Order { oneof x { int32 id = 1; string note = 2; } }", "moved into one oneof"),
        ("message Order { Other id = 1; } message Other {}", "Other does not read int32"),
    ):
        (problem,) = proto(wrong).problems_reading(old)
        assert told in problem
    chosen = proto("message Order { oneof x { int32 a = 1; int32 b = 2; } }")
    (problem,) = proto("message Order { oneof x { int32 a = 1; } }").problems_reading(chosen)
    assert "taken out of its oneof" in problem
    second = proto("message Order { required int32 a = 1; }", "proto2")
    assert not reads(second, proto("message Order {}", "proto2"))


def test_the_text_of_a_proto_file_and_its_descriptor_are_the_same_schema():
    text = proto(
        'import "google/protobuf/timestamp.proto"; '
        "message Order { int32 order_id = 1; google.protobuf.Timestamp at = 2; }"
    )
    descriptor = text.formatted("serialized")
    assert base64.b64decode(descriptor)
    again = parse(Schema(PROTOBUF, descriptor), nothing)
    assert again.identity == text.identity
    assert text.formatted("") == text.schema.text
    assert usual_json_name("order__id_9x") == "orderId9x"
    used = Schema(PROTOBUF, 'syntax = "proto3"; message Item { int32 n = 1; }')
    main = Schema(
        PROTOBUF,
        'syntax = "proto3"; import "item.proto"; message Order { Item item = 1; }',
        (Reference("item.proto", "items", 1),),
    )
    assert parse(main, lambda reference: used).identity
    for wrong in (
        "message {",
        "not base64 either!",
        "AAAA",
        'syntax = "proto3"; message A { B b = 1; }',
    ):
        with pytest.raises(InvalidSchema):
            parse(Schema(PROTOBUF, wrong), nothing)


def test_levels_say_which_direction_and_how_far_back():
    first, second = avro(ID, {"name": "a", "type": "string"}), avro(ID)
    third = avro(ID, {"name": "a", "type": "long"}, NOTE)
    found = {level: bool(problems(level, third, [first, second])) for level in LEVELS}
    assert found == {
        "NONE": False,
        "BACKWARD": True,  # `a` has no default
        "BACKWARD_TRANSITIVE": True,
        "FORWARD": False,
        "FORWARD_TRANSITIVE": True,  # `a` was a string once
        "FULL": True,
        "FULL_TRANSITIVE": True,
    }
    assert problems("BACKWARD", json_schema(type="string"), [first]) == ["JSON cannot follow AVRO"]
