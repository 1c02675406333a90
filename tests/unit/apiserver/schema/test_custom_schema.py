"""The schemas of custom resources: pruning, defaults, and what is refused in a real server's words."""

from pprint import pformat
from typing import Any

import pytest

from deploy.local.apiserver.codec.field_errors import DecodeError
from deploy.local.apiserver.schema import schema, structural
from tests.support.tables import cases, for_each
from tests.unit.apiserver.examples import refusals

PROPERTIES: dict[str, Any] = {
    "i": {"type": "integer", "minimum": 1, "maximum": 5},
    "s": {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^a"},
    "e": {"type": "string", "enum": ["x", "y"]},
    "l": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "string"}},
    "m": {"type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": {"type": "integer"}},
    "port": {"x-kubernetes-int-or-string": True},
    "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "o": {
        "type": "object",
        "required": ["a", "b"],
        "properties": {
            "a": {"type": "string", "default": "A"},
            "b": {"type": "number", "multipleOf": 2},
            "n": {"type": "string", "nullable": True, "default": "N"},
        },
    },
    "d": {"type": "object", "default": {}, "properties": {"x": {"type": "integer", "default": 3}}},
    "at": {"type": "string", "format": "date-time"},
    "between": {"type": "number", "minimum": 1, "exclusiveMinimum": True, "maximum": 2, "exclusiveMaximum": True},
    "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
    "map": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
        "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}},
    },
    "one": {
        "type": "object",
        "properties": {"p": {"type": "string"}, "q": {"type": "string"}},
        "oneOf": [{"required": ["p"]}, {"required": ["q"]}],
    },
    "some": {"type": "object", "properties": {"p": {"type": "string"}}, "anyOf": [{"required": ["p"]}]},
    "never": {"type": "object", "properties": {"p": {"type": "string"}}, "not": {"required": ["p"]}},
    "all": {"type": "integer", "allOf": [{"minimum": 3}, {"maximum": 4}]},
    "pod": {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
    "small": {"type": "integer", "format": "int32"},
    "flag": {"type": "boolean"},
    "whole": {"type": "integer"},
    "even": {"type": "integer", "multipleOf": 2},
    "word": {"type": "string", "pattern": "^a$"},
    "sums": {"type": "object", "additionalProperties": {"type": "integer", "default": 7}},
}
VERSION = {
    "name": "v1",
    "schema": {
        "openAPIV3Schema": {
            "type": "object",
            "required": ["spec"],
            "properties": {"spec": {"type": "object", "properties": PROPERTIES}, "status": {"type": "object"}},
        }
    },
}
FOO = schema.custom(VERSION)


def foo(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "ex.com/v1", "kind": "Foo", "metadata": {"name": "f"}, "spec": spec}


ONE_OF = 'one: Invalid value: "": "spec.one" must validate one and only one schema (oneOf)'


@refusals(
    {
        "i: Invalid value: 0: spec.i in body should be greater than or equal to 1": {"i": 0},
        "i: Invalid value: 9: spec.i in body should be less than or equal to 5": {"i": 9},
        'i: Invalid value: "string": spec.i in body must be of type integer: "string"': {"i": "x"},
        'i: Invalid value: "boolean": spec.i in body must be of type integer: "boolean"': {"i": True},
        'i: Invalid value: "null": spec.i in body must be of type integer: "null"': {"i": None},
        "s: Too long: may not be longer than 4": {"s": "ab" * 3},
        's: Invalid value: "a": spec.s in body should be at least 2 chars long': {"s": "a"},
        "s: Invalid value: \"ba\": spec.s in body should match '^a'": {"s": "ba"},
        "word: Invalid value: \"a\\n\": spec.word in body should match '^a$'": {"word": "a\n"},
        'e: Unsupported value: "z": supported values: "x", "y"': {"e": "z"},
        "l: Invalid value: 0: spec.l in body should have at least 1 items": {"l": []},
        "l: Too many: 3: must have at most 2 items": {"l": ["a"] * 3},
        'l[0]: Invalid value: "integer": spec.l[0] in body must be of type string: "integer"': {"l": [1]},
        "m: Invalid value: 0: spec.m in body should have at least 1 properties": {"m": {}},
        "m: Too many: 2: must have at most 1 items": {"m": {"a": 1, "b": 2}},
        'port: Invalid value: "number": spec.port in body must be of type integer,string: "number"': {"port": 1.5},
        "o.b: Required value": {"o": {"a": "x"}},
        "o.b: Invalid value: 3: spec.o.b in body should be a multiple of 2": {"o": {"a": "x", "b": 3}},
        "between: Invalid value: 1: spec.between in body should be greater than 1": {"between": 1},
        "between: Invalid value: 2: spec.between in body should be less than 2": {"between": 2},
        'at: Invalid value: "x": spec.at in body must be of type date-time: "x"': {"at": "x"},
        'set[1]: Duplicate value: "a"': {"set": ["a", "a"]},
        'map[1]: Duplicate value: map[string]string{"k":"a"}': {"map": [{"k": "a"}, {"k": "a"}]},
        f"{ONE_OF}. Found none valid": {"one": {}},
        f"{ONE_OF}. Found 2 valid alternatives": {"one": {"p": "", "q": ""}},
        'some: Invalid value: "": "spec.some" must validate at least one schema (anyOf)': {"some": {}},
        'never: Invalid value: "": "spec.never" must not validate the schema (not)': {"never": {"p": ""}},
        "all: Invalid value: 2: spec.all in body should be greater than or equal to 3": {"all": 2},
        "pod.apiVersion: Required value: must not be empty": {"pod": {"kind": "Pod"}},
        **{
            f'{field}: Invalid value: "number": spec.{field} in body must be of type {kind}: "number"': {field: value}
            for field, kind, value in (
                ("whole", "integer", 2**63),
                ("even", "integer", -(2**63) - 1),
                ("i", "integer", 1e18),
                ("port", "integer,string", 2.0**53),
            )
        },
    }
)
def test_a_value_that_breaks_its_schema_is_refused(refusal: str, body: Any) -> None:
    assert [str(error) for error in FOO.validate(foo(**body))] == [f"spec.{refusal}"]


@cases(
    ("nothing", {}),
    ("a whole number with a fraction of zero", {"i": 3.0}),
    ("a text where a number may be", {"port": "http"}),
    ("a format of numbers", {"small": 2**31}),
    ("the largest numbers", {"whole": 2**63 - 1, "even": -(2**63), "port": 2.0**53 - 1}),
    ("a null where it is allowed", {"o": {"a": "x", "b": 2.0, "n": None}}),
    ("anything", {"any": {"x": [1, {"y": None}]}}),
    ("what fits", {"at": "2020-01-01T00:00:00+02:00", "between": 1.5, "one": {"p": "x"}, "all": 3}),
    ("lists without duplicates", {"map": [{"k": "a"}, {"k": "b"}], "set": ["a", "b"]}),
)
def test_a_value_that_keeps_its_schema_is_fine(spec: Any) -> None:
    assert FOO.validate(foo(**spec)) == []


def test_a_large_list_without_duplicates_takes_no_longer_than_its_length() -> None:
    assert FOO.validate(foo(set=[str(number) for number in range(100_000)])) == []


@for_each(([1, 1.0], 1), ([1, True], 0), ([{"a": 1, "b": 2}, {"b": 2, "a": 1}], 1), (["1", 1], 0))
def test_items_of_a_set_are_compared_as_json(items: list[Any], found: int) -> None:
    schema_of = {"type": "array", "x-kubernetes-list-type": "set"}
    assert len(structural.validator(schema_of)(items)) == found


def test_the_root_is_judged_too() -> None:
    assert [str(error) for error in FOO.validate({"metadata": {}})] == ["spec: Required value"]


@cases(
    ("defaults in defaults", {}, {"d": {"x": 3}}),
    ("what is there stays", {"d": {"x": 1}}, {"d": {"x": 1}}),
    ("null where it is not allowed", {"d": None}, {"d": {"x": 3}}),
    ("null where it is", {"o": {"n": None}}, {"d": {"x": 3}, "o": {"a": "A", "n": None}}),
    ("nulls without a default", {"i": None, "port": None, "m": {"a": None, "b": 1}}, {"d": {"x": 3}, "m": {"b": 1}}),
    ("nulls in lists", {"map": [{"k": None}], "l": [None]}, {"d": {"x": 3}, "map": [{}], "l": [None]}),
    ("a null beside a large number", {"i": None, "any": {"x": 2**64}}, {"d": {"x": 3}, "any": {"x": 2**64}}),
    (
        "a fraction of zero",
        {"whole": 2.0, "any": {"x": [1e3, 1.5, "2.0"], "y": -0.0}},
        {"d": {"x": 3}, "whole": 2, "any": {"x": [1000, 1.5, "2.0"], "y": 0}},
    ),
    ("more than 53 bits", {"any": {"x": 1e18}}, {"d": {"x": 3}, "any": {"x": 1e18}}),
    ("nulls of no known field", {"any": {"x": None}}, {"d": {"x": 3}, "any": {"x": None}}),
    ("a null in place of an amount", {"sums": {"a": None}}, {"d": {"x": 3}, "sums": {"a": 7}}),
)
def test_defaults_are_filled_in(spec: Any, filled: Any) -> None:
    body = foo(**spec)
    # As texts: 2.0 is equal to 2.
    found, expected = (pformat(value) for value in (FOO.default(body), foo(**filled)))
    assert found == expected
    assert body == foo(**spec)


def test_unknown_fields_are_pruned_and_named() -> None:
    body = foo(x=1, any={"y": 2}, map=[{"k": "a", "z": 3}], pod={"kind": "Pod", "q": 1})
    body |= {"other": 1, "metadata": {"name": "f", "nmae": "g"}}
    kept = foo(any={"y": 2}, map=[{"k": "a"}], pod={"kind": "Pod", "q": 1})
    found, warnings = FOO.decode(body, strict="Warn")
    assert found == kept
    fields = ["metadata.nmae", "other", "spec.map[0].z", "spec.x"]
    assert warnings == [f'unknown field "{field}"' for field in fields]
    with pytest.raises(
        DecodeError, match=r'Foo in version "v1" cannot .* strict decoding error: unknown field "metadata'
    ):
        FOO.decode(body, strict="Strict")


def test_metadata_must_be_metadata() -> None:
    with pytest.raises(DecodeError, match=r"cannot unmarshal number into Go struct field ObjectMeta\.metadata\.labels"):
        FOO.decode(foo() | {"metadata": {"labels": {"a": 3}}}, strict="Ignore")


def test_without_a_schema_everything_is_kept() -> None:
    free = schema.custom({"name": "v1"})
    body = foo(x={"y": [1, None]})
    assert free.decode(body, strict="Strict") == (body, [])
    assert free.validate(free.default(body)) == []
