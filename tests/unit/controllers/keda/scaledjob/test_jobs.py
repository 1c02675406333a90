"""The Jobs a ScaledJob makes: their names and their bodies."""

import re

from hypothesis import given
from hypothesis import strategies as st

from tests.support.tables import cases, for_each
from tests.unit.controllers.factories import UID, scaled_job
from workers.api.keda import scaledjob
from workers.controllers.keda.scaledjob import jobs, names


def build(**parts):
    (body,) = jobs.build(scaledjob.parse(scaled_job(**parts)), ["work-10-0"])
    return body


SUBDOMAINS = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,70}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,70}[a-z0-9])?)?", fullmatch=True)


@given(SUBDOMAINS, st.integers(0, 2**62), st.integers(0, 99_999))
def test_every_name_is_a_dns_label_and_leads_back_to_its_index(owner, reading, index):
    given_names = names.of(owner, reading)
    name = given_names.name(index)
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", name)
    assert len(name) <= 63
    assert given_names.index(name) == index


@given(SUBDOMAINS, st.integers(0, 2**62), st.integers(0, 2**62))
def test_names_of_different_readings_never_meet(owner, one, other):
    meets = names.of(owner, other).index(names.of(owner, one).name(0)) is not None
    assert meets is (one == other)


def test_long_names_with_the_same_start_are_kept_apart():
    one, other = ("x" * 60 + end for end in ("a", "b"))
    assert names.of(one, 1).prefix != names.of(other, 1).prefix


@for_each("work-10-", "work-10-x", "work-10-0-0", "work-11-0", "other", "work-10--1")
def test_other_names_have_no_index(name):
    assert names.of("work", 36).index(name) is None


@cases(
    ("a first decision", set(), 2, ["work-10-0", "work-10-1"]),
    ("going on", {"work-10-0"}, 2, ["work-10-1", "work-10-2"]),
    ("a gap is closed first", {"work-10-1", "work-9-0"}, 2, ["work-10-0", "work-10-2"]),
)
def test_free_names_are_the_first_that_no_job_has_had(taken, number, expected):
    assert list(jobs.free_names(names.of("work", 36), taken, number)) == expected


def test_a_job_carries_kedas_labels_its_generation_and_its_owner():
    metadata = build(metadata={"generation": 4})["metadata"]
    assert metadata["name"] == "work-10-0"
    assert metadata["namespace"] == "default"
    assert metadata["labels"] == {
        "app.kubernetes.io/name": "work",
        "app.kubernetes.io/version": jobs.KEDA_VERSION,
        "app.kubernetes.io/part-of": "work",
        "app.kubernetes.io/managed-by": "keda-operator",
        "scaledjob.keda.sh/name": "work",
    }
    assert metadata["annotations"] == {"scaledjob.keda.sh/generation": "4"}
    assert metadata["ownerReferences"] == [
        {
            "apiVersion": "keda.sh/v1alpha1",
            "kind": "ScaledJob",
            "name": "work",
            "uid": UID,
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


@for_each((63, True), (64, False))
def test_a_name_that_no_label_can_hold_is_in_none(length, held):
    name = "w" * length
    body = build(metadata={"name": name})
    found = {**body["metadata"]["labels"], **body["spec"]["template"]["metadata"]["labels"]}
    assert (name in found.values()) == held
    assert found["app.kubernetes.io/managed-by"] == "keda-operator"


def test_a_job_takes_over_labels_and_annotations_and_the_users_win():
    metadata = build(
        metadata={
            "labels": {"team": "blue", "app.kubernetes.io/part-of": "shop"},
            "annotations": {"note": "x", "scaledjob.keda.sh/generation": "mine"},
        }
    )["metadata"]
    assert metadata["labels"]["team"] == "blue"
    assert metadata["labels"]["app.kubernetes.io/part-of"] == "shop"
    assert metadata["annotations"] == {"note": "x", "scaledjob.keda.sh/generation": "mine"}


def test_excluded_labels_are_not_taken_over_and_the_list_is_not_trimmed():
    annotations = {"scaledjob.keda.sh/job-excluded-labels": "team, zone"}
    labels = build(metadata={"labels": {"team": "blue", "zone": "a"}, "annotations": annotations})["metadata"]["labels"]
    assert "team" not in labels
    assert labels["zone"] == "a"


@for_each((None, "OnFailure"), ("", "OnFailure"), ("Never", "Never"))
def test_the_restart_policy_defaults_to_on_failure(given_policy, expected):
    spec = {"containers": [], **({} if given_policy is None else {"restartPolicy": given_policy})}
    assert build(jobTargetRef={"template": {"spec": spec}})["spec"]["template"]["spec"]["restartPolicy"] == expected


def test_the_rest_of_the_target_is_copied_as_it_is():
    target = {
        "backoffLimit": 0,
        "parallelism": 3,
        "unknown": {"kept": True},
        "template": {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "spec": {"containers": [{"a": 1}]}},
    }
    spec = build(jobTargetRef=target)["spec"]
    assert {key: spec[key] for key in ("backoffLimit", "parallelism", "unknown")} == {
        "backoffLimit": 0,
        "parallelism": 3,
        "unknown": {"kept": True},
    }
    assert spec["template"]["metadata"] == {
        "labels": {"a": "b", "scaledjob.keda.sh/name": "work"},
        "annotations": {"c": "d"},
        "generateName": "work-",
    }
    assert spec["template"]["spec"]["containers"] == [{"a": 1}]
    assert target["template"]["metadata"] == {"labels": {"a": "b"}, "annotations": {"c": "d"}}
