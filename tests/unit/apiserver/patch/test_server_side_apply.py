"""Server-side apply as a function of values: what is merged, who owns it, and whom a change conflicts with."""

from typing import Any

import pytest

from deploy.local.apiserver.patch import PatchError
from deploy.local.apiserver.patch.apply import field_sets, merge_types, owners, typed_values
from deploy.local.apiserver.patch.apply.managed_fields import MOST_UPDATERS, ManagedFields, is_reset
from deploy.local.apiserver.patch.apply.owners import ConflictError, Manager, OwnerOperation, Owners
from tests.support.tables import cases
from workers.api.kinds import Kind

_TEXT = {"type": "string"}
_KEYED = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"]}
_FIELDS: dict[str, Any] = {
    "a": _TEXT,
    "b": _TEXT,
    "list": {"type": "array", "items": _TEXT},
    "set": {"type": "array", "items": _TEXT, "x-kubernetes-list-type": "set"},
    "map": {**_KEYED, "items": {"type": "object", "properties": {"id": _TEXT, "a": _TEXT}}},
    "words": {"type": "object", "additionalProperties": _TEXT},
    "deep": {"type": "object", "properties": {"x": {"type": "object", "properties": {"y": _TEXT}}}},
    "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": _TEXT, "b": _TEXT}},
    "free": {"x-kubernetes-preserve-unknown-fields": True},
}
TREE = merge_types.custom({"schema": {"openAPIV3Schema": {"type": "object", "properties": _FIELDS}}})
DEPLOYMENT = merge_types.builtin(Kind("apps", "v1", "Deployment", "deployments"))

ANT, BEE = (Manager(name, OwnerOperation.APPLY) for name in ("ant", "bee"))
DOG = Manager("dog", OwnerOperation.UPDATE, "v1")

#: A manager, what it writes, and "force" for an apply that takes from others. DOG replaces the object.
Step = tuple[Any, ...]


def after(steps: list[Step], kind: merge_types.MergeType = TREE) -> tuple[Any, Owners]:
    live: Any = {}
    known: Owners = {}
    for manager, config, *force in steps:
        if manager is DOG:
            live, known = config, owners.update(kind, known, DOG, live, config)
        else:
            live, known = owners.apply(kind, known, manager, live, config, force=bool(force))
    return live, known


def shown(known: Owners) -> dict[str, list[str]]:
    return {manager.name: sorted(map(field_sets.spelled, fields)) for manager, fields in known.items()}


def items(*texts: str) -> list[dict[str, str]]:
    """Items with their ids, and ``a`` where a text has more than one letter."""
    return [{"id": text[0], "a": text[1:]} if text[1:] else {"id": text} for text in texts]


@cases(
    ("what is applied is owned", [(ANT, {"a": "1"})], {"a": "1"}, {"ant": [".a"]}),
    ("what is no longer applied goes", [(ANT, {"a": "1", "b": "1"}), (ANT, {"b": "1"})], {"b": "1"}, {"ant": [".b"]}),
    (
        "and stays if another applied it too",
        [(ANT, {"a": "1"}), (BEE, {"a": "1"}), (ANT, {})],
        {"a": "1"},
        {"bee": [".a"]},
    ),
    ("what nobody applied stays", [(DOG, {"a": "1"}), (ANT, {"b": "1"}), (ANT, {})], {"a": "1"}, {"dog": [".a"]}),
    (
        "force takes from others",
        [(ANT, {"a": "1", "b": "1"}), (BEE, {"a": "2"}, "force")],
        {"a": "2", "b": "1"},
        {"ant": [".b"], "bee": [".a"]},
    ),
    (
        "an update takes from others",
        [(ANT, {"a": "1", "b": "1"}), (DOG, {"a": "2", "b": "1"})],
        {"a": "2", "b": "1"},
        {"ant": [".b"], "dog": [".a"]},
    ),
    (
        "what an update removes nobody owns",
        [(ANT, {"a": "1", "b": "1"}), (DOG, {"b": "1"})],
        {"b": "1"},
        {"ant": [".b"]},
    ),
    (
        "an empty object goes with its last member",
        [(ANT, {"deep": {"x": {"y": "1"}}}), (ANT, {"a": "1"})],
        {"a": "1"},
        {"ant": [".a"]},
    ),
    (
        "and stays, empty, if it is applied",
        [(ANT, {"deep": {"x": {"y": "1"}}}), (ANT, {"deep": {"x": {}}})],
        {"deep": {"x": {}}},
        {"ant": [".deep.x"]},
    ),
    (
        "a list that another made stays, empty",
        [(DOG, {"set": []}), (ANT, {"set": ["1"]}), (ANT, {})],
        {"set": []},
        {"dog": [".set"]},
    ),
    (
        "members of a map",
        [(ANT, {"words": {"k": "1"}}), (BEE, {"words": {"l": "1"}}), (ANT, {})],
        {"words": {"l": "1"}},
        {"bee": [".words.l"]},
    ),
    ("an empty map is owned", [(ANT, {"words": {}})], {"words": {}}, {"ant": [".words"]}),
    (
        "an atomic list has one owner",
        [(ANT, {"list": ["1"]}), (BEE, {"list": ["2"]}, "force")],
        {"list": ["2"]},
        {"bee": [".list"]},
    ),
    (
        "and so has an atomic object",
        [(ANT, {"whole": {"a": "1"}}), (BEE, {"whole": {"b": "1"}}, "force")],
        {"whole": {"b": "1"}},
        {"bee": [".whole"]},
    ),
    (
        "items of a set",
        [(ANT, {"set": ["1", "2"]}), (BEE, {"set": ["3"]}), (ANT, {"set": ["2"]})],
        {"set": ["2", "3"]},
        {"ant": ['.set[="2"]'], "bee": ['.set[="3"]']},
    ),
    (
        "items with keys",
        [(ANT, {"map": items("i1")}), (BEE, {"map": items("i", "j2")}), (ANT, {})],
        {"map": items("i", "j2")},
        {"bee": ['.map[id="i"]', '.map[id="i"].id', '.map[id="j"]', '.map[id="j"].a', '.map[id="j"].id']},
    ),
    (
        "the applied order, others before what they preceded",
        [(DOG, {"map": items("a", "b", "c", "d")}), (ANT, {"map": items("d", "n", "b")})],
        {"map": items("a", "c", "d", "n", "b")},
        {
            "ant": [f'.map[id="{name}"]{field}' for name in "bdn" for field in ("", ".id")],
            "dog": sorted([".map", *(f'.map[id="{name}"]{field}' for name in "abcd" for field in ("", ".id"))]),
        },
    ),
    (
        "fields of unknown types are maps, lists are atomic",
        [(ANT, {"free": {"a": {"b": [1]}}}), (BEE, {"free": {"a": {"c": 1}}}), (BEE, {})],
        {"free": {"a": {"b": [1]}}},
        {"ant": [".free.a", ".free.a.b"]},
    ),
    (
        "an object that becomes a plain value",
        [(BEE, {"free": {"a": 1}}), (ANT, {"free": 1}, "force")],
        {"free": 1},
        {"ant": [".free"]},
    ),
    (
        "a plain value that becomes an object",
        [(ANT, {"free": 1}), (ANT, {"free": {"a": 1}})],
        {"free": {"a": 1}},
        {"ant": [".free.a"]},
    ),
)
def test_writes_leave_an_object_and_its_owners(steps: list[Step], expected: Any, owned: dict[str, list[str]]) -> None:
    live, known = after(steps)
    assert (live, shown(known)) == (expected, owned)


def deployed(*ports: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"spec": {**spec, "template": {"spec": {"containers": [{"name": "c", "ports": list(ports)}]}}}}


def test_keys_have_their_defaults() -> None:
    live, known = after(
        [(ANT, deployed({"containerPort": 80})), (BEE, deployed({"containerPort": 80, "protocol": "UDP"}))], DEPLOYMENT
    )
    ports = live["spec"]["template"]["spec"]["containers"][0]["ports"]
    assert [port.get("protocol", "TCP") for port in ports] == ["TCP", "UDP"]
    place = '.spec.template.spec.containers[name="c"].ports[containerPort=80,protocol="TCP"]'
    assert {place, f"{place}.containerPort"} <= set(shown(known)["ant"])


def test_a_null_that_every_struct_has_is_no_change() -> None:
    config = {"spec": {"template": {"metadata": {"creationTimestamp": None}}}}
    _live, known = after([(ANT, config)], DEPLOYMENT)
    _live, known = owners.apply(DEPLOYMENT, known, BEE, {"spec": {"template": {"metadata": {}}}}, config)
    assert known[ANT] == known[BEE]


def test_fields_that_nobody_owns_stay_where_another_owns_the_item() -> None:
    _live, known = after([(ANT, {"map": items("i")}), (BEE, {"map": items("i")})])
    live, _known = owners.apply(TREE, known, ANT, {"map": items("i1")}, {})
    assert live == {"map": items("i1")}


def test_an_update_does_not_own_the_structs_that_every_object_has() -> None:
    _live, known = after([(DOG, {**deployed(replicas=1), "metadata": {"name": "x", "labels": {"a": "b"}}})], DEPLOYMENT)
    container = '.spec.template.spec.containers[name="c"]'
    fields = [
        ".metadata.labels",
        ".metadata.labels.a",
        ".spec.replicas",
        container,
        f"{container}.name",
        f"{container}.ports",
        f"{container}.resources",
    ]
    assert shown(known)["dog"] == sorted(fields)


def test_a_conflict_names_every_owner_and_field() -> None:
    steps = [(ANT, {"a": "1"}), (BEE, {"b": "1"}), (DOG, {"a": "1", "b": "1", "list": ["1"]})]
    live, known = after(steps)
    with pytest.raises(ConflictError) as one:
        owners.apply(TREE, known, BEE, live, {"b": "1", "list": ["2"]})
    assert str(one.value) == 'Apply failed with 1 conflict: conflict with "dog" using v1: .list'
    with pytest.raises(ConflictError) as many:
        owners.apply(
            TREE, known, Manager("cat", OwnerOperation.APPLY, subresource="status"), live, {"a": "2", "list": ["2"]}
        )
    assert str(many.value) == (
        'Apply failed with 2 conflicts: conflicts with "ant":\n- .a\nconflicts with "dog" using v1:\n- .list'
    )
    assert many.value.causes[0] == {"reason": "FieldManagerConflict", "message": 'conflict with "ant"', "field": ".a"}


@cases(
    ("unknown field", {"deep": {"z": 1}}, ".deep.z: field not declared in schema"),
    ("repeated key", {"map": items("i", "i")}, '.map: duplicate entries for key [id="i"]'),
    ("repeated value", {"set": ["1", "1"]}, '.set: duplicate entries for key [="1"]'),
    (
        "no key",
        {"map": [{"a": "1"}]},
        ".map: element 0: associative list with keys has an element that omits all key fields [id]",
    ),
    ("no object", {"map": ["i"]}, ".map: element 0: associative list with keys may not have non-map elements"),
    ("no value", {"set": [{}]}, ".set: element 0: associative list without keys has an element that is no plain value"),
    ("no list", {"set": {}}, ".set: expected list, got map"),
    ("no map", {"deep": "1"}, ".deep: expected map, got string"),
)
def test_a_configuration_of_another_form_is_refused(config: Any, message: str) -> None:
    with pytest.raises(PatchError) as error:
        owners.apply(TREE, {}, ANT, {}, config)
    assert (str(error.value), error.value.status) == (message, 400)


def test_a_stored_list_may_repeat_a_key_until_it_is_applied() -> None:
    live, known = after([(DOG, {"map": items("i1", "i2", "j")})])
    assert shown(known)["dog"] == [".map", '.map[id="i"]', '.map[id="j"]', '.map[id="j"].id']
    merged, _known = owners.apply(TREE, known, ANT, live, {"map": items("i3")}, force=True)
    assert merged == {"map": items("i3", "j")}


def test_managed_fields_are_written_as_they_are_read() -> None:
    steps = [(ANT, {"map": items("i1"), "set": ["1"]}), (DOG, {"map": items("i1"), "set": ["1", "2"], "a": "1"})]
    managed = ManagedFields().changed(after(steps)[1], "2026-01-01T00:00:00Z")
    entries = managed.encode("test/v1")
    assert [(e["manager"], e["operation"], e["apiVersion"]) for e in entries] == [
        ("ant", "Apply", "test/v1"),
        ("dog", "Update", "v1"),
    ]
    item = {".": {}, "f:a": {}, "f:id": {}}
    assert entries[0]["fieldsV1"] == {"f:map": {'k:{"id":"i"}': item}, "f:set": {'v:"1"': {}}}
    assert ManagedFields.decode(entries) == managed


def test_times_change_with_what_is_owned() -> None:
    first = ManagedFields().changed(after([(ANT, {"a": "1"}), (BEE, {"b": "1"})])[1], "1")
    second = first.changed({**first.owners, BEE: frozenset({("f:a",)})}, "2")
    assert second.times == {ANT: "1", BEE: "2"}


def test_the_oldest_of_many_updaters_become_one() -> None:
    fields = {
        Manager(f"m{n:02}", OwnerOperation.UPDATE, "v1"): frozenset({(f"f:{n}",)}) for n in range(MOST_UPDATERS + 2)
    }
    managed = ManagedFields({ANT: frozenset({("f:a",)}), **fields}, {m: m.name for m in fields})
    entries = managed.encode("v1")
    assert len(entries) == MOST_UPDATERS + 1
    [ancient] = [entry for entry in entries if entry["manager"] == "ancient-changes"]
    assert (ancient["fieldsV1"], ancient["time"]) == ({"f:0": {}, "f:1": {}, "f:2": {}}, "m02")


@cases(
    ("no object", {"operation": "Apply", "fieldsV1": {"f:a": 1}}, "no object at .a"),
    ("operation", {"operation": "Eat"}, "'Eat' is not a valid OwnerOperation"),
    ("element", {"operation": "Apply", "fieldsV1": {"x:a": {}}}, "'x:a' names no field"),
    ("key", {"operation": "Apply", "fieldsV1": {"k:[": {}}}, "unexpected end"),
)
def test_managed_fields_that_cannot_be_read_are_an_error(entry: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ManagedFields.decode([entry])


def test_an_empty_list_or_entry_asks_to_forget_all_owners() -> None:
    assert [is_reset(entries) for entries in ([], [{}], None, [{"manager": "x"}], "")] == [
        True,
        True,
        False,
        False,
        False,
    ]


@cases(
    {
        name: Kind(group, "v1", name, "")
        for group, name in (
            ("", "Pod"),
            ("batch", "Job"),
            ("", "Node"),
            ("apiextensions.k8s.io", "CustomResourceDefinition"),
        )
    },
)
def test_every_field_of_a_kind_has_a_type(kind: Kind) -> None:
    """Types refer to themselves, and each is made when it is needed: go through all of them once."""
    seen, todo = set(), [merge_types.builtin(kind)]
    while todo:
        one = todo.pop()
        if id(one) not in seen:
            seen.add(id(one))
            todo += [*one.declared.values(), *filter(None, (one.items, one.values))]
            assert set(one.present) <= set(one.declared)
    assert typed_values.field_set(merge_types.builtin(kind), {"metadata": {"name": "x"}}) == {("f:metadata", "f:name")}
