"""Keys and addresses of objects."""

import pytest

from tests.support.tables import cases, for_each
from workers.api import kinds


@cases(
    (
        "a group",
        kinds.Ref(kinds.JOB, "default", "crunch"),
        "jobs.batch/default/crunch",
        "/apis/batch/v1/namespaces/default/jobs/crunch",
    ),
    ("the core group", kinds.Ref(kinds.POD, "a", "b"), "pods/a/b", "/api/v1/namespaces/a/pods/b"),
    ("cluster-scoped", kinds.Ref(kinds.NODE, "", "local"), "nodes//local", "/api/v1/nodes/local"),
)
def test_a_key_names_one_object_and_leads_back_to_it(ref, key, path):
    assert ref.key == key
    assert kinds.parse_key(key) == ref
    assert ref.kind.path(ref.namespace, ref.name) == path


@for_each("", "jobs.batch", "jobs.batch/default", "jobs.batch/default/", "nonsense/a/b")
def test_a_text_that_is_no_key_is_refused_and_quoted(text):
    with pytest.raises(ValueError, match="not a key"):
        kinds.parse_key(text)


@for_each(({}, []), ({"finalizers": None}, []), ({"finalizers": ["a/b", "c/d"]}, ["a/b", "c/d"]))
def test_an_object_without_finalizers_has_none(metadata, finalizers):
    assert kinds.finalizers_of({"metadata": metadata}) == finalizers


def test_only_the_owner_marked_controller_manages_an_object():
    owners = [{"kind": "Job", "name": "x"}, {"kind": "ScaledJob", "name": "y", "controller": True}]
    assert kinds.controller_of({"metadata": {"ownerReferences": owners}}) == owners[1]
    assert kinds.controller_of({"metadata": {}}) is None


def test_a_manifest_is_matched_by_group_and_kind_whatever_its_version():
    assert kinds.by_manifest("keda.sh/v1", "ScaledJob") is kinds.SCALED_JOB
    assert kinds.by_manifest("v1", "Pod") is kinds.POD
    assert kinds.by_manifest("batch.volcano.sh/v1alpha1", "Job") is kinds.VC_JOB
    assert kinds.by_manifest("batch.example.com/v1", "Job") is None
