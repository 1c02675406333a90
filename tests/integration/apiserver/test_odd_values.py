"""Jobs, CronJobs and pods with something odd in them are refused by both servers for the same fields, or by neither."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.apiserver.client import STRATEGIC, Answer, Api
from tests.support.embedded import Embedded
from tests.support.tables import cases, for_each
from tests.unit.apiserver.examples import template
from tests.unit.apiserver.odd import METADATA, ODD, PODS, mutated, places
from tests.unit.apiserver.pod_faults import FAULTS
from workers.api import names

pytestmark = pytest.mark.real_apiserver

#: One in so many of all odd values at all places, a number without common divisors with their count.
STEP = 3
TEMPLATE = {
    "metadata": {"labels": {"e": "f"}},
    "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
}
JOB: dict[str, Any] = {"completions": 4, "parallelism": 2, "activeDeadlineSeconds": 9, "template": TEMPLATE}
#: Values of expressions are judged by newer servers only.
SELECTOR = {"matchLabels": {"e": "f"}, "matchExpressions": [{"key": "e", "operator": "Exists"}]}
CRON_JOB: dict[str, Any] = {
    "schedule": "*/5 * * * *",
    "startingDeadlineSeconds": 100,
    "concurrencyPolicy": "Forbid",
    "successfulJobsHistoryLimit": 1,
    "failedJobsHistoryLimit": 2,
    "jobTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": {"parallelism": 2, "template": TEMPLATE}},
}
#: The group, the collection and the spec.
DOCUMENTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "job": ("/apis/batch/v1", "jobs", JOB),
    "job with its own selector": ("/apis/batch/v1", "jobs", {**JOB, "manualSelector": True, "selector": SELECTOR}),
    "cron job": ("/apis/batch/v1", "cronjobs", CRON_JOB),
    "pod": ("/api/v1", "pods", PODS),
}


def fields(answer: Answer) -> tuple[int, list[str]]:
    """The code, and the fields that are to blame, without labels that only newer servers know."""
    details = answer.body.get("details") or {} if answer.code >= 400 else {}
    blamed = {cause["field"] for cause in details.get("causes") or ()}
    return answer.code, sorted(field for field in blamed if "batch.kubernetes.io" not in field)


@pytest.fixture
def both(real: Path, embedded: Embedded) -> tuple[Api, Api]:
    """The real server and the embedded one, each with the namespace `odd`."""
    found = Api(real, "odd"), Api(embedded.kubeconfig, "odd")
    for api in found:
        api("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "odd"}})
    return found


def odd(document: dict[str, Any]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Some of all places with odd values, evenly spread."""
    return itertools.islice(itertools.product(places(document), ODD), 0, None, STEP)


def named_freely(place: tuple[Any, ...], value: Any) -> bool:
    """True for the name of a variable, or its beginning, that no server before Kubernetes 1.32 allows."""
    of_variable = place[-1] == "prefix" or (place[-1] == "name" and place[-3:-2] == ("env",))
    return of_variable and isinstance(value, str) and not names.env_name(value)


@cases(DOCUMENTS)
def test_both_servers_blame_the_same_fields(group: str, plural: str, spec: Any, both: tuple[Api, Api]) -> None:
    theirs, ours = both
    document = {"metadata": METADATA, "spec": spec}
    # CronJobs came to batch/v1 with Kubernetes 1.21.
    served = f"{group}beta1" if plural == "cronjobs" and not theirs.has("1.21") else group
    relaxed = theirs.has("1.32")
    for path, value in odd(document):
        body = mutated(document, [(path, value)])
        if named_freely(path, value) and not relaxed:
            continue
        expected = theirs("POST", f"{served}/namespaces/odd/{plural}", body, dryRun="All")
        found = ours("POST", f"{group}/namespaces/odd/{plural}", body, dryRun="All")
        assert fields(found) == fields(expected), (path, value, found.text, expected.text)


@cases(FAULTS)
def test_both_servers_refuse_a_template_for_its_fault(spec: Any, blamed: list[str], both: tuple[Api, Api]) -> None:
    made = {"metadata": {"name": "faulty"}, "spec": {"template": template(**spec)}}
    theirs, ours = (api("POST", "/apis/batch/v1/namespaces/odd/jobs", made, dryRun="All") for api in both)
    expected = 422, sorted({f"spec.template.spec.{field}" for field in blamed})
    assert (fields(theirs), fields(ours)) == (expected, expected), (ours.text, theirs.text)


#: What the old server reads otherwise in patches: numbers that do not fit are cut, nulls vanish from lists.
READ_OTHERWISE = [value for value in ODD if isinstance(value, (int, float)) and abs(value) >= 2**31] + [[None]]


@for_each("jobs", "pods")
def test_both_servers_blame_the_same_fields_of_a_change(plural: str, both: tuple[Api, Api]) -> None:
    group, spec = ("/api/v1", PODS) if plural == "pods" else ("/apis/batch/v1", {**JOB, "parallelism": 0})
    metadata = {"name": "stored", "labels": {"a": "b"}, "annotations": {"c": "d"}}
    document = {"metadata": metadata, "spec": spec}
    path = f"{group}/namespaces/odd/{plural}"
    for api in both:
        api.create(path, document)
    for place, value in odd(document):
        if value in READ_OTHERWISE or not all(isinstance(key, str) for key in place):
            continue
        patch = value
        for key in reversed(place):
            patch = {key: patch}
        theirs, ours = (api("PATCH", f"{path}/stored", patch, type=STRATEGIC, dryRun="All") for api in both)
        if theirs.code == 500:
            assert 400 <= ours.code < 500
        else:
            assert fields(ours) == fields(theirs), (place, value, ours.text, theirs.text)
