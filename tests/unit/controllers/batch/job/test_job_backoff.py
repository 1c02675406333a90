"""The backoff before failed pods are replaced, and the failures after which an index is given up."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from tests.support.tables import cases, for_each
from tests.unit.controllers.factories import NOW, at, condition, pod
from workers.controllers.batch.job import backoff
from workers.controllers.batch.job import pods as job_pods
from workers.controllers.batch.job.indexes import FAILURE_COUNT, IGNORED_FAILURE_COUNT, INDEX
from workers.controllers.batch.job.policies import NO_MATCH, FailureAction


def ended(seconds, name="main"):
    return {"name": name, "state": {"terminated": {"exitCode": 1, "finishedAt": at(seconds)}}}


def running(name="main"):
    return {"name": name, "state": {"running": {"startedAt": at(-50)}}}


def finished(seconds, name="p", **annotations):
    return pod(name, "Failed", containerStatuses=[ended(seconds)], metadata={"annotations": annotations}).body


def of_index(index, *, counted=None, ignored=None, ended=-300, name="p"):
    """A failed pod of an index, with these counts of the failures before it."""
    texts = {INDEX: index, FAILURE_COUNT: counted, IGNORED_FAILURE_COUNT: ignored}
    return finished(ended, name, **{key: str(value) for key, value in texts.items() if value is not None})


def seconds(instant):
    return None if instant is None else (instant - NOW).total_seconds()


SIDECAR = {"initContainers": [{"name": "side", "restartPolicy": "Always"}, {"name": "setup"}]}
NOT_READY = condition("Ready", "False", at_=-20)


def went(**status):
    """The status and spec of a pod that is not ready since 20 s ago."""
    return {"conditions": [NOT_READY], **status}


def deleted(at_, grace=None):
    return {"metadata": {"deletionTimestamp": at(at_), "deletionGracePeriodSeconds": grace}}


def beside(**status):
    """A pod whose regular container ended 9 s ago, and that has init containers."""
    return {"containerStatuses": [ended(-9)], "spec": SIDECAR, **status}


@cases(
    ("the last container's end", {"containerStatuses": [ended(-9), ended(-3), ended(-7)]}, -3),
    ("ends before readiness", went(containerStatuses=[ended(-9)]), -9),
    ("not all have ended", went(containerStatuses=[ended(-9), running("b")]), -20),
    ("an end without a time", went(containerStatuses=[{"state": {"terminated": {"exitCode": 1}}}]), -20),
    ("an end with a null time", went(containerStatuses=[{"state": {"terminated": {"finishedAt": None}}}]), -20),
    ("no containers", went(containerStatuses=[]), -20),
    ("null containers", went(containerStatuses=None), -20),
    ("a null state", {"containerStatuses": [{"name": "main", "state": None}]}, -60),
    ("a restartable init container ends later", beside(initContainerStatuses=[ended(-2, "side")]), -2),
    ("a restartable init container runs", went(**beside(initContainerStatuses=[running("side")])), -20),
    ("other init containers do not matter", beside(initContainerStatuses=[running("setup")]), -9),
    ("nor when nothing else began", went(initContainerStatuses=[ended(-9, "setup")], spec=SIDECAR), -20),
    ("null init containers", beside(initContainerStatuses=None, spec={"initContainers": None}), -9),
    ("readiness before deletion", went(metadata={"deletionTimestamp": at(-5)}), -20),
    ("ready to the end", {"conditions": [condition("Ready", at_=-20)], **deleted(-5)}, -5),
    ("ready is no end", {"conditions": [condition("Ready", at_=-20)]}, -60),
    ("not ready, since an unknown time", {"conditions": [{"type": "Ready", "status": "False"}]}, -60),
    ("its deletion's begin", deleted(-5, 30), -35),
    ("its deletion's begin, with a grace beyond all time", deleted(-5, 2**63 - 1), -5 - 1000 * 366 * 86400),
    ("without grace", deleted(-5), -5),
    ("its creation", {}, -60),
)
def test_when_a_pod_finished(more, expected):
    assert seconds(job_pods.finish_time(pod("p", "Failed", **more).body)) == expected


@for_each((1, 10), (2, 20), (3, 40), (4, 80), (5, 160), (6, 320), (7, 600), (8, 600), (2**31, 600), (2**32, 600))
def test_the_wait_doubles_up_to_ten_minutes(failures, wait):
    assert backoff.delay(failures) == timedelta(seconds=wait)


@cases(
    ("its first failure", None, None, 10),
    ("its second", 1, None, 20),
    ("ignored failures wait as well", 0, 2, 40),
    ("both", 1, 2, 80),
    ("the longest", 6, None, 600),
    ("the most there can be", 2**31 - 1, 2**31 - 1, 600),
    ("too large reads as none", 2**31, None, 10),
    ("so do others that are no counts", -1, "x", 10),
)
def test_when_an_index_may_have_its_next_pod(counted, ignored, wait):
    assert seconds(backoff.index_ready_at(of_index(0, counted=counted, ignored=ignored, ended=-5))) == wait - 5


@cases(
    ("more counted failures", {"counted": 1}, {"counted": 2}),
    ("more ignored failures", {"counted": 1}, {"counted": 1, "ignored": 1}),
    ("their sum", {"counted": 2}, {"ignored": 3}),
    ("as many, finished later", {"counted": 1, "ended": -9}, {"counted": 1, "ended": -8}),
    ("more, though finished earlier", {"counted": 1, "ended": -8}, {"counted": 2, "ended": -9}),
    ("the name, when nothing else tells", {"name": "a"}, {"name": "b"}),
)
def test_the_newest_failed_pod_of_an_index(older, newer):
    old, new = of_index(3, **older), of_index(3, **newer)
    assert backoff.newest_failed([old, new]) == {3: new}
    assert backoff.newest_failed([new, old]) == {3: new}


def test_each_index_has_its_own_newest_pod():
    pods = [of_index(1), of_index(0, counted=2), of_index(1, counted=1), of_index(0), of_index("x"), finished(-1)]
    assert backoff.newest_failed(pods) == {0: pods[1], 1: pods[2]}
    assert backoff.newest_failed([]) == {}


COUNTS = st.one_of(st.none(), st.integers(0, 3))
FAILED = st.builds(
    of_index,
    st.integers(0, 3),
    counted=COUNTS,
    ignored=COUNTS,
    ended=st.integers(-9, -1),
    name=st.sampled_from("abcdef"),
)


@given(st.lists(FAILED, unique_by=lambda body: body["metadata"]["name"]), st.randoms(use_true_random=False))
def test_the_newest_do_not_depend_on_the_order_of_the_pods(pods, random):
    found = backoff.newest_failed(pods)
    shuffled = list(pods)
    random.shuffle(shuffled)
    assert backoff.newest_failed(shuffled) == found
    assert set(found) == {int(body["metadata"]["annotations"][INDEX]) for body in pods}


@cases(
    ("limit 0: the first failure", None, 0, NO_MATCH, True),
    ("limit 1: not the first", None, 1, NO_MATCH, False),
    ("limit 1: the second", 1, 1, NO_MATCH, True),
    ("beyond the limit", 2, 1, NO_MATCH, True),
    ("Count counts", 1, 1, FailureAction("Count", "", 0), True),
    ("FailJob counts", 1, 1, FailureAction("FailJob", "why", 0), True),
    ("Ignore never is the last", 9, 1, FailureAction("Ignore", "", 0), False),
    ("FailIndex always is", None, 2**31 - 1, FailureAction("FailIndex", "", 0), True),
    ("the largest limit", 2**31 - 1, 2**31 - 1, NO_MATCH, True),
    ("a count too large reads as none", 2**31, 1, NO_MATCH, False),
    ("so does an unreadable one", "x", 1, NO_MATCH, False),
)
def test_the_failure_that_fails_an_index(counted, limit, verdict, over):
    assert backoff.failed_index(of_index(0, counted=counted, ignored=5), limit, verdict) is over
