"""The fast paths of structural schemas agree with the full check."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from deploy.local.apiserver.schema import quick_checks, structural
from tests.support.tables import cases, for_each
from workers.api import crds
from workers.api.kinds import Object

NAMES = st.sampled_from(["a", "b", "c", "kind"])
WORDS = st.sampled_from(["", "a", "bb", "2026-01-01T00:00:00Z", "2026-01-01"])


def optional(**parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Object]:
    return st.fixed_dictionaries({}, optional=parts)


LEAVES = st.one_of(
    st.builds(
        lambda more: {"type": "string", **more},
        optional(
            minLength=st.integers(0, 2),
            maxLength=st.integers(0, 2),
            format=st.sampled_from(["date-time", "byte"]),
            enum=st.lists(WORDS, min_size=1, max_size=2),
            pattern=st.just("^a"),
            nullable=st.booleans(),
            default=WORDS,
        ),
    ),
    st.builds(lambda more: {"type": "integer", **more}, optional(minimum=st.integers(0, 2), default=st.integers(0, 3))),
    st.just({"type": "boolean"}),
    st.just({"type": "number"}),
    st.just({"x-kubernetes-int-or-string": True}),
)


def _grown(inner: st.SearchStrategy[Object]) -> st.SearchStrategy[Object]:
    fields = st.dictionaries(NAMES, inner, max_size=3)
    more = optional(
        required=st.lists(NAMES, unique=True, max_size=2),
        nullable=st.booleans(),
        default=st.just({}),
        maxProperties=st.integers(0, 2),
        **{
            "x-kubernetes-preserve-unknown-fields": st.just(True),
            "x-kubernetes-embedded-resource": st.just(True),
            "x-kubernetes-map-type": st.just("atomic"),
        },
    )
    lists = optional(**{"maxItems": st.integers(0, 2), "x-kubernetes-list-type": st.sampled_from(["set", "atomic"])})
    return st.one_of(
        st.builds(lambda known, rest: {"type": "object", "properties": known, **rest}, fields, more),
        st.builds(
            lambda each, rest: {"type": "object", "additionalProperties": each, **rest}, inner | st.just(True), more
        ),
        st.builds(lambda each, rest: {"type": "array", "items": each, **rest}, inner, lists),
        st.builds(lambda each: {"anyOf": [each, {"type": "string"}]}, inner),
    )


SCHEMAS = st.recursive(LEAVES, _grown, max_leaves=6)
VALUES = st.recursive(
    st.one_of(WORDS, st.integers(-1, 3), st.booleans(), st.none(), st.floats(0, 2)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=400)
@given(SCHEMAS, VALUES)
def test_the_fast_path_agrees_with_the_full_check(schema: Object, value: Any) -> None:
    unknown: list[str] = []
    assert structural.pruner(schema)(value) == (structural._prune(schema, value, "", unknown, keep=False), unknown)
    filled = structural._without_nulls(schema, structural._default(schema, value))
    assert structural.defaulter(schema)(value) == filled
    assert structural.validator(schema)(value) == list(structural._validate(schema, value, ""))


@cases(
    ("true is no number", {"type": "integer"}, 1, True),
    ("nor is a number one of some words", {"type": "string", "enum": ["1"]}, "1", 1),
    ("a moment", {"type": "string", "format": "date-time"}, "2026-01-01T00:00:00Z", "2026-01-01"),
    ("each item", {"type": "array", "items": {"type": "string"}}, ["a"], ["a", 1]),
    ("a field that must be there", {"type": "object", "required": ["a"]}, {"a": 1}, {}),
    ("each field", {"type": "object", "additionalProperties": {"type": "integer"}}, {"a": 1}, {"a": 1, "b": "1"}),
)
def test_plain_schemas_need_no_full_check(schema: Object, fine: Any, wrong: Any) -> None:
    def look(*_: Any) -> bool:
        raise AssertionError("looked")

    assert quick_checks.fits(schema, look)(fine)
    assert not quick_checks.fits(schema, look)(wrong)


@for_each("JobFlow", "PodGroup", "Queue")
def test_statuses_of_our_kinds_need_no_full_check(kind: str) -> None:
    def look(schema: Object, _value: Any) -> bool:
        raise AssertionError(schema)

    (definition,) = [each for each in crds.all_crds(volcano=True) if each["spec"]["names"]["kind"] == kind]
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    assert quick_checks.fits(schema, look)({"unknown": 1})
