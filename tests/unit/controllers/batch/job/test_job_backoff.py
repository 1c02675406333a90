"""The backoff before failed pods are replaced, and the failures after which an index is given up."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        pytest.param({"containerStatuses": [ended(-9), ended(-3), ended(-7)]}, -3, id="the last container's end"),
        pytest.param({"containerStatuses": [ended(-9)], "conditions": [NOT_READY]}, -9, id="ends before readiness"),
        pytest.param(
            {"containerStatuses": [ended(-9), running("b")], "conditions": [NOT_READY]}, -20, id="not all have ended"
        ),
        pytest.param(
            {
                "containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": 1}}}],
                "conditions": [NOT_READY],
            },
            -20,
            id="an end without a time",
        ),
        pytest.param(
            {
                "containerStatuses": [{"name": "main", "state": {"terminated": {"finishedAt": None}}}],
                "conditions": [NOT_READY],
            },
            -20,
            id="an end with a null time",
        ),
        pytest.param({"containerStatuses": [], "conditions": [NOT_READY]}, -20, id="no containers"),
        pytest.param({"containerStatuses": None, "conditions": [NOT_READY]}, -20, id="null containers"),
        pytest.param({"containerStatuses": [{"name": "main", "state": None}]}, -60, id="a null state"),
        pytest.param(
            {"containerStatuses": [ended(-9)], "initContainerStatuses": [ended(-2, "side")], "spec": SIDECAR},
            -2,
            id="a restartable init container ends later",
        ),
        pytest.param(
            {
                "containerStatuses": [ended(-9)],
                "initContainerStatuses": [running("side")],
                "conditions": [NOT_READY],
                "spec": SIDECAR,
            },
            -20,
            id="a restartable init container has not ended",
        ),
        pytest.param(
            {"containerStatuses": [ended(-9)], "initContainerStatuses": [running("setup")], "spec": SIDECAR},
            -9,
            id="other init containers do not matter",
        ),
        pytest.param(
            {"initContainerStatuses": [ended(-9, "setup")], "conditions": [NOT_READY], "spec": SIDECAR},
            -20,
            id="nor when nothing else began",
        ),
        pytest.param(
            {"containerStatuses": [ended(-9)], "initContainerStatuses": None, "spec": {"initContainers": None}},
            -9,
            id="null init containers",
        ),
        pytest.param(
            {"conditions": [NOT_READY], "metadata": {"deletionTimestamp": at(-5)}}, -20, id="readiness before deletion"
        ),
        pytest.param(
            {"conditions": [condition("Ready", "True", at_=-20)], "metadata": {"deletionTimestamp": at(-5)}},
            -5,
            id="ready to the end",
        ),
        pytest.param(
            {"conditions": [{"type": "Ready", "status": "False"}]}, -60, id="not ready, nobody knows since when"
        ),
        pytest.param(
            {"metadata": {"deletionTimestamp": at(-5), "deletionGracePeriodSeconds": 30}},
            -35,
            id="its deletion's begin",
        ),
        pytest.param(
            {"metadata": {"deletionTimestamp": at(-5), "deletionGracePeriodSeconds": None}}, -5, id="without grace"
        ),
        pytest.param({}, -60, id="its creation"),
    ],
)
def test_when_a_pod_finished(more, expected):
    assert seconds(job_pods.finish_time(pod("p", "Failed", **more).body)) == expected


@pytest.mark.parametrize(
    ("failures", "wait"),
    [(1, 10), (2, 20), (3, 40), (4, 80), (5, 160), (6, 320), (7, 600), (8, 600), (2**31, 600), (2**32, 600)],
)
def test_the_wait_doubles_up_to_ten_minutes(failures, wait):
    assert backoff.delay(failures) == timedelta(seconds=wait)


@pytest.mark.parametrize(
    ("succeeded", "failed", "expected"),
    [
        pytest.param([], [], None, id="nothing has finished"),
        pytest.param([-5], [], None, id="only successes"),
        pytest.param([], [-5], 5, id="one failure"),
        pytest.param([], [-5, -30], 15, id="two failures: from the later one"),
        pytest.param([], [-30, -5, -9], 35, id="three failures in any order"),
        pytest.param([-9], [-30, -40, -5], 5, id="a success begins anew"),
        pytest.param([-5], [-5], None, id="a failure at the moment of the success is before it"),
        pytest.param([-40, -9], [-30, -5], 5, id="the last success"),
        pytest.param([-60], [-30, -5], 15, id="an older success"),
        pytest.param([], [-5] * 1000, 595, id="a thousand failures"),
    ],
)
def test_when_the_job_may_make_its_next_pod(succeeded, failed, expected):
    found = backoff.ready_at([finished(at_) for at_ in succeeded], [finished(at_) for at_ in failed])
    assert seconds(found) == expected


@pytest.mark.parametrize(
    ("counted", "ignored", "wait"),
    [
        pytest.param(None, None, 10, id="its first failure"),
        pytest.param(1, None, 20, id="its second"),
        pytest.param(0, 2, 40, id="ignored failures wait as well"),
        pytest.param(1, 2, 80, id="both"),
        pytest.param(6, None, 600, id="the longest"),
        pytest.param(2**31 - 1, 2**31 - 1, 600, id="the most there can be"),
        pytest.param(2**31, None, 10, id="too large reads as none"),
        pytest.param(-1, "x", 10, id="so do others that are no counts"),
    ],
)
def test_when_an_index_may_have_its_next_pod(counted, ignored, wait):
    assert seconds(backoff.index_ready_at(of_index(0, counted=counted, ignored=ignored, ended=-5))) == wait - 5


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        pytest.param({"counted": 1}, {"counted": 2}, id="more counted failures"),
        pytest.param({"counted": 1}, {"counted": 1, "ignored": 1}, id="more ignored failures"),
        pytest.param({"counted": 2}, {"ignored": 3}, id="their sum"),
        pytest.param({"counted": 1, "ended": -9}, {"counted": 1, "ended": -8}, id="as many, finished later"),
        pytest.param({"counted": 1, "ended": -8}, {"counted": 2, "ended": -9}, id="more, though finished earlier"),
        pytest.param({"name": "a"}, {"name": "b"}, id="the name, when nothing else tells"),
    ],
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


@pytest.mark.parametrize(
    ("counted", "limit", "verdict", "over"),
    [
        pytest.param(None, 0, NO_MATCH, True, id="limit 0: the first failure"),
        pytest.param(None, 1, NO_MATCH, False, id="limit 1: not the first"),
        pytest.param(1, 1, NO_MATCH, True, id="limit 1: the second"),
        pytest.param(2, 1, NO_MATCH, True, id="beyond the limit"),
        pytest.param(1, 1, FailureAction("Count", "", 0), True, id="Count counts"),
        pytest.param(1, 1, FailureAction("FailJob", "why", 0), True, id="FailJob counts"),
        pytest.param(9, 1, FailureAction("Ignore", "", 0), False, id="Ignore never is the last"),
        pytest.param(None, 2**31 - 1, FailureAction("FailIndex", "", 0), True, id="FailIndex always is"),
        pytest.param(2**31 - 1, 2**31 - 1, NO_MATCH, True, id="the largest limit"),
        pytest.param(2**31, 1, NO_MATCH, False, id="a count too large reads as none"),
        pytest.param("x", 1, NO_MATCH, False, id="so does an unreadable one"),
    ],
)
def test_the_failure_that_fails_an_index(counted, limit, verdict, over):
    assert backoff.failed_index(of_index(0, counted=counted, ignored=5), limit, verdict) is over


@pytest.mark.parametrize(
    ("more", "waits"),
    [
        pytest.param({}, True, id="nobody deleted it"),
        pytest.param({"metadata": {"deletionTimestamp": at(-5)}}, True, id="deleted after it had failed"),
        pytest.param({"metadata": {"deletionTimestamp": at(-20)}}, False, id="failed after it was deleted"),
        pytest.param(
            {"metadata": {"deletionTimestamp": at(-9)}}, False, id="in one second: most end at once when told"
        ),
        pytest.param(
            {"metadata": {"deletionTimestamp": at(22), "deletionGracePeriodSeconds": 30}},
            True,
            id="asked to go a second later",
        ),
        pytest.param(
            {"metadata": {"deletionTimestamp": at(22), "deletionGracePeriodSeconds": 30}, "phase": "Running"},
            False,
            id="not failed yet",
        ),
    ],
)
def test_which_failures_a_job_waits_for(more, waits):
    given = {"containerStatuses": [ended(-9)], **more}
    phase = given.pop("phase", "Failed")
    assert job_pods.delays_replacement(pod("p", phase, **given).body) is waits
