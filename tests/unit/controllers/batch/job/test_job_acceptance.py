"""Indexed Jobs from their creation to their end: what Kubernetes' own end-to-end suites look at, and a naive model."""

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.tables import cases
from tests.unit.controllers.batch.job.job_cluster import JobCluster
from workers.api import conditions
from workers.controllers.batch.job.indexes import FAILURE_COUNT, IGNORED_FAILURE_COUNT, INDEX, Indexes, index_of
from workers.controllers.batch.job.policies import judge_success

INDEXED = {"completionMode": "Indexed"}


def on_code(code, action):
    return {"action": action, "onExitCodes": {"operator": "In", "values": [code]}}


def policy(**actions):
    """A pod failure policy from exit codes (c42="FailJob") to actions."""
    return {"rules": [on_code(int(name[1:]), action) for name, action in actions.items()]}


def by_index(*codes):
    """Each pod of index i ends with codes[i]; None: it runs until it is stopped."""
    return lambda index, _: codes[index]


def by_attempt(*codes):
    """The first pod of each index ends with codes[0], the next with codes[1], ..."""
    return lambda _, attempt: codes[min(attempt, len(codes) - 1)]


def indexed(script, completions, *, parallelism=None, **spec):
    """The cluster once nothing more happens."""
    cluster = JobCluster(script, **INDEXED, completions=completions, parallelism=parallelism or completions, **spec)
    cluster.settle()
    return cluster


def success(*rules):
    return {"successPolicy": {"rules": list(rules)}}


def each(limit, **more):
    return {"backoffLimitPerIndex": limit, **more}


def on_code_42(action):
    return {"podFailurePolicy": policy(c42=action)}


REACHED = ("Complete", "CompletionsReached", "Reached expected number of succeeded pods")
FAILED = ("Failed", "FailedIndexes", "Job has failed indexes")
TOO_MANY = ("Failed", "MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes")
LIMIT = ("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
FATAL = ("Failed", "PodFailurePolicy", " failed with exit code 42 matching FailJob rule at index 0")


def met(rule=0):
    return ("Complete", "SuccessPolicy", f"Matched rules at index {rule}")


FIRST = success({"succeededIndexes": "0"})
SECOND = success({"succeededIndexes": "0"}, {"succeededCount": 1})
SOME = success({"succeededIndexes": "2,3", "succeededCount": 1})
#: Instead of an exit code: the pod runs until it is stopped.
RUNS = None

#: Exit codes (a list by index, a tuple by attempt), spec, end, completed and failed indexes, counts.
ROWS = {
    "one success per index": ([0, 0, 0, 0], {}, REACHED, "0-3", None, (4, 0)),
    "failures are replaced": ((1, 0), {}, REACHED, "0-3", None, (4, 4)),
    "success: all indexes": ([0, 0, 0, 0], success({"succeededIndexes": "0-3"}), met(), "0-3", None, (4, 0)),
    "success: some, the others linger": ([0, RUNS, RUNS, RUNS], FIRST, met(), "0", None, (1, 0)),
    "success: a count": ([0, RUNS, RUNS, 0], success({"succeededCount": 2}), met(), "0,3", None, (2, 0)),
    "success: a count of some": ([0, 0, RUNS, 0], SOME, met(), "0,1,3", None, (3, 0)),
    "success: the second rule": ([RUNS, 0, RUNS, RUNS], SECOND, met(1), "1", None, (1, 0)),
    "success: an index has failed": ([1, 0, RUNS, RUNS], each(0, **SECOND), met(1), "1", "0", (1, 1)),
    "a failure beats success": ([0, 42, RUNS, RUNS], FIRST | on_code_42("FailJob"), FATAL, "0", None, (1, 3)),
    "each: odd indexes fail": ([0, 1, 0, 1], each(1), FAILED, "0,2", "1,3", (2, 4)),
    "each: all succeed when tried again": ((1, 0), each(1), REACHED, "0-3", "", (4, 4)),
    "each: none may fail": ([1] * 4, each(0, maxFailedIndexes=0, parallelism=1), TOO_MANY, "", "0", (0, 1)),
    "each: one may fail": ([0, 1, 0, 0], each(0, maxFailedIndexes=1), FAILED, "0,2,3", "1", (3, 1)),
    "each: the second is too many": ([1, 1, RUNS, 0], each(1, maxFailedIndexes=1), TOO_MANY, "3", "0,1", (1, 5)),
    "each: backoffLimit holds as well": ([1, 1, 1, RUNS], each(5, backoffLimit=2), LIMIT, "", "", (0, 4)),
    "FailIndex: no retry": ([0, 42, 0, 1], each(1, **on_code_42("FailIndex")), FAILED, "0,2", "1,3", (2, 3)),
    "Ignore: replaced, not counted": ((42, 42, 0), each(0, **on_code_42("Ignore")), REACHED, "0-3", "", (4, 0)),
    "Ignore: with backoffLimit 0": ((42, 0), {"backoffLimit": 0} | on_code_42("Ignore"), REACHED, "0-3", None, (4, 0)),
    "FailJob: the others are stopped": ([42, RUNS, RUNS, RUNS], on_code_42("FailJob"), FATAL, "", None, (0, 4)),
}


@cases(ROWS)
def test_what_becomes_of_an_indexed_job(codes, spec, end, completed, failed, counts):
    cluster = indexed(by_index(*codes) if isinstance(codes, list) else by_attempt(*codes), 4, **spec)
    status, (final, reason, message) = cluster.status, end
    assert cluster.ending == (final, reason)
    assert conditions.find(cluster.job, final)["message"].endswith(message)
    assert status.get("completedIndexes", "") == completed
    assert status.get("failedIndexes") == failed
    assert (status.get("succeeded", 0), status.get("failed", 0)) == counts
    assert [status.get(name, 0) for name in ("active", "ready", "terminating")] == [0, 0, 0]
    assert cluster.held() == []
    # Pods that still worked are gone; those that ended stay for whoever wants their logs.
    assert all(pod["status"]["phase"] in ("Succeeded", "Failed") for pod in cluster.pods.values())
    # The decision to end is reported before the end.
    target = "SuccessCriteriaMet" if final == "Complete" else "FailureTarget"
    first = next(status for status in cluster.history if conditions.find({"status": status}, target))
    assert conditions.find({"status": first}, target)["reason"] == reason
    assert [message for told, message in cluster.events if told in ("Completed", reason)] == [
        "Job completed" if final == "Complete" else conditions.find(cluster.job, "Failed")["message"]
    ]


def counts_of(cluster, index):
    annotations = [pod["metadata"]["annotations"] for pod in cluster.of_index(index)]
    return [(each.get(FAILURE_COUNT), each.get(IGNORED_FAILURE_COUNT)) for each in annotations]


def test_each_pod_of_an_index_knows_of_the_failures_before_it():
    ending_codes = (1, 7, 1, 7, 0)
    cluster = indexed(
        by_attempt(*ending_codes), 2, backoffLimitPerIndex=2, podFailurePolicy=policy(c7="Ignore"), backoffLimit=100
    )
    assert cluster.over == "Complete"
    expected = [("0", None), ("1", None), ("1", "1"), ("2", "1"), ("2", "2")]
    assert [counts_of(cluster, index) for index in (0, 1)] == [expected, expected]


def test_without_a_limit_per_index_pods_carry_no_counts():
    cluster = indexed(by_attempt(1, 0), 1)
    assert counts_of(cluster, 0) == [(None, None), (None, None)]


def test_an_index_waits_for_itself_only():
    """Index 0 fails three times; index 1 once, and is not made to wait for it."""
    cluster = JobCluster(
        lambda index, attempt: 0 if attempt >= (3 if index == 0 else 1) else 1,
        **INDEXED,
        completions=2,
        parallelism=2,
        backoffLimitPerIndex=5,
    )
    done_at = {}
    for _ in range(300):
        cluster.sync()
        cluster.play()
        for index in Indexes.parse(cluster.status.get("completedIndexes")):
            done_at.setdefault(index, cluster.second)
        cluster.second += 1
        if cluster.over:
            break
    assert cluster.over == "Complete"
    assert 10 <= done_at[1] < 20
    assert 70 <= done_at[0] < 90


def test_a_failed_pod_keeps_its_finalizer_until_the_one_after_it_exists():
    """Deleted at once, it would take the failure count of its index with it."""
    cluster = JobCluster(by_attempt(1, None), **INDEXED, completions=1, parallelism=1, backoffLimitPerIndex=1)
    cluster.sync()
    cluster.play()
    cluster.sync()
    (first,) = cluster.of_index(0)
    cluster.second += 5
    cluster.delete(first["metadata"]["name"])
    cluster.sync()
    assert cluster.held() == [first["metadata"]["name"]]
    cluster.second += 10
    for _ in range(3):
        cluster.sync()
        cluster.play()
    assert first["metadata"]["name"] not in cluster.pods
    assert counts_of(cluster, 0) == [("1", None)]
    assert cluster.status["failed"] == 1


def test_a_pod_of_no_index_counts_for_nothing_and_goes():
    cluster = JobCluster(by_index(None, 0), **INDEXED, completions=2, parallelism=2)
    cluster.sync()
    (pod,) = cluster.of_index(0)
    name = pod["metadata"]["name"]
    annotations = {**pod["metadata"]["annotations"], INDEX: "seven"}
    cluster.pods[name] = {**pod, "metadata": {**pod["metadata"], "annotations": annotations}}
    cluster.script = lambda index, _: None if index is None else 0
    cluster.settle()
    assert cluster.ending == ("Complete", "CompletionsReached")
    assert (cluster.status["succeeded"], cluster.status.get("failed", 0)) == (2, 0)
    assert pod["metadata"]["uid"] not in [each["metadata"]["uid"] for each in cluster.pods.values()]


def test_a_job_grows_and_shrinks_with_its_parallelism():
    cluster = JobCluster(lambda index, _: 0 if index < 2 else None, **INDEXED, completions=2, parallelism=2)
    cluster.job["spec"].update(completions=4, parallelism=4)
    for _ in range(4):
        cluster.sync()
        cluster.play()
    assert cluster.status["completedIndexes"] == "0,1"
    assert sorted(index_of(pod) for pod in cluster.pods.values()) == [0, 1, 2, 3]
    cluster.job["spec"].update(completions=1, parallelism=1)
    cluster.settle()
    assert cluster.over == "Complete"
    assert (cluster.status["completedIndexes"], cluster.status["succeeded"]) == ("0", 1)


def test_a_pod_deleted_by_a_client_before_the_success_was_decided_has_failed():
    """As good as failed since it was deleted; that the Job succeeded meanwhile does not change it."""
    cluster = JobCluster(lambda _, attempt: 0 if attempt < 2 else None, completions=3, parallelism=3)
    cluster.sync()
    cluster.play()
    (last,) = (name for name, pod in cluster.pods.items() if pod["status"]["phase"] == "Running")
    cluster.job["spec"].update(completions=2)
    cluster.delete(last)
    cluster.settle()
    assert cluster.over == "Complete"
    assert (cluster.status["succeeded"], cluster.status.get("failed", 0)) == (2, 1)


def test_a_pod_that_a_suspension_stopped_fails_no_job():
    """Its exit code is that of the signal, and a foreign finalizer keeps the pod."""
    cluster = JobCluster(
        by_index(None), **INDEXED, completions=1, parallelism=1, podFailurePolicy=policy(c137="FailJob")
    )
    cluster.sync()
    cluster.play()
    (pod,) = cluster.of_index(0)
    pod["metadata"]["finalizers"].append("example.com/backup")
    cluster.job["spec"]["suspend"] = True
    cluster.settle()
    assert (pod["metadata"]["name"] in cluster.pods, cluster.over) == (True, None)
    cluster.job["spec"]["suspend"] = False
    cluster.script = by_index(0)
    cluster.settle()
    assert cluster.ending == ("Complete", "CompletionsReached")
    assert cluster.status.get("failed", 0) == 0


# A naive model: what the pods' exit codes make of each index, whatever else happens.

IGNORED, FAILING = 7, 42
CODES = st.lists(st.sampled_from([0, 1, 1, IGNORED, FAILING]), min_size=1, max_size=4)


@dataclass
class Fate:
    """The expected end of one index."""

    completed: bool = False
    counted: int = 0


def fate(codes, limit):
    """Pods end with these codes one after the other, and with 0 when there are no more."""
    found = Fate()
    for code in [*codes, 0]:
        if code == 0:
            found.completed = True
            return found
        if code == IGNORED:
            continue
        found.counted += 1
        if code == FAILING or found.counted > limit:
            return found
    raise AssertionError("the last code is 0")


@settings(max_examples=150, deadline=None)
@given(
    scripts=st.lists(CODES, min_size=1, max_size=4),
    limit=st.integers(0, 2),
    parallelism=st.integers(1, 4),
    kills=st.lists(st.one_of(st.none(), st.integers(0, 6)), max_size=30),
)
def test_indexes_end_as_their_pods_do_at_any_crash(scripts, limit, parallelism, kills):
    """Counters are exact although plans are cut short between any two effects."""
    cluster = JobCluster(
        lambda index, attempt: ([*scripts[index], 0])[min(attempt, len(scripts[index]))],
        **INDEXED,
        completions=len(scripts),
        parallelism=parallelism,
        backoffLimitPerIndex=limit,
        podFailurePolicy=policy(c7="Ignore", c42="FailIndex"),
    )
    for kill in kills:
        cluster.steps = kill
        changed = cluster.sync() | cluster.play()
        cluster.second += 1 if changed else 30
    cluster.settle()
    fates = [fate(codes, limit) for codes in scripts]
    completed = [index for index, each in enumerate(fates) if each.completed]
    failed = [index for index, each in enumerate(fates) if not each.completed]
    status = cluster.status
    assert cluster.ending == (("Failed", "FailedIndexes") if failed else ("Complete", "CompletionsReached"))
    assert list(Indexes.parse(status.get("completedIndexes"))) == completed
    assert list(Indexes.parse(status["failedIndexes"])) == failed
    assert status.get("succeeded", 0) == len(completed)
    assert status.get("failed", 0) == sum(each.counted for each in fates)
    assert cluster.held() == []


RULES = st.fixed_dictionaries(
    {}, optional={"succeededIndexes": st.sets(st.integers(0, 3), min_size=1).map(lambda each: Indexes.of(each).text)}
).flatmap(
    lambda rule: (
        st.integers(1, 4).map(lambda count: {**rule, "succeededCount": count})
        if not rule
        else st.one_of(st.just(rule), st.integers(1, 4).map(lambda count: {**rule, "succeededCount": count}))
    )
)


@settings(max_examples=150, deadline=None)
@given(
    rules=st.lists(RULES, min_size=1, max_size=3),
    codes=st.lists(st.sampled_from([0, 0, 0, None]), min_size=4, max_size=4),
    delays=st.lists(st.integers(0, 3), min_size=4, max_size=4),
    kills=st.lists(st.one_of(st.none(), st.integers(0, 6)), max_size=20),
)
def test_a_success_policy_ends_a_job_as_soon_as_it_is_met_and_never_before(rules, codes, delays, kills):
    # What succeeded in the end meets the policy, and what had succeeded before the last decision did not.
    policy_ = {"rules": rules}
    cluster = JobCluster(
        by_index(None, None, None, None), **INDEXED, completions=4, parallelism=4, successPolicy=policy_
    )
    for moment in range(24):
        cluster.steps = kills[moment] if moment < len(kills) else None
        ready = [None if moment < delay else code for delay, code in zip(delays, codes, strict=True)]
        cluster.script = by_index(*ready)
        cluster.play()
        cluster.sync()
        cluster.second += 1
    cluster.settle()
    possible = Indexes.of(index for index, code in enumerate(codes) if code == 0)
    completed = Indexes.parse(cluster.status.get("completedIndexes"))
    if judge_success(policy_, possible, 4):
        assert cluster.ending == ("Complete", "SuccessPolicy")
        assert judge_success(policy_, completed, 4)
    elif len(possible) == 4:
        assert cluster.ending == ("Complete", "CompletionsReached")
    else:
        assert cluster.over is None
        assert completed == possible
    if not any(kill is not None for kill in kills):
        # A pod that was deleted before the end was written down counts as failed, by the default replacement policy.
        assert cluster.status.get("failed", 0) == 0
    if cluster.over:
        assert cluster.held() == []


@settings(max_examples=150, deadline=None)
@given(
    codes=st.lists(st.sampled_from([0, 0, 1]), min_size=1, max_size=8),
    completions=st.integers(1, 4),
    parallelism=st.integers(1, 4),
    suspensions=st.lists(st.booleans(), max_size=20),
    kills=st.lists(st.one_of(st.none(), st.integers(0, 6)), max_size=30),
    deletions=st.lists(st.integers(-3, 3), max_size=20),
    replacement=st.sampled_from(["Failed", "TerminatingOrFailed"]),
)
def test_every_pod_that_was_released_was_counted_once(
    codes, completions, parallelism, suspensions, kills, deletions, replacement
):
    """Without indexes, and with people who delete pods and suspend the Job as they like."""
    cluster = JobCluster(
        lambda _, attempt: codes[attempt] if attempt < len(codes) else 0,
        completions=completions,
        parallelism=parallelism,
        backoffLimit=1000,
        podReplacementPolicy=replacement,
    )
    for moment, kill in enumerate(kills):
        cluster.steps = kill
        changed = cluster.sync()
        if moment < len(deletions) and 0 <= deletions[moment] < len(cluster.pods):
            cluster.delete(sorted(cluster.pods)[deletions[moment]])
        if moment < len(suspensions) and not cluster.over:
            cluster.job = {**cluster.job, "spec": {**cluster.job["spec"], "suspend": suspensions[moment]}}
        cluster.second += 1 if changed | cluster.play() else 30
    cluster.job = {**cluster.job, "spec": {**cluster.job["spec"], "suspend": False}}
    cluster.settle()
    assert cluster.ending == ("Complete", "CompletionsReached")
    status = cluster.status
    assert status.get("succeeded", 0) + status.get("failed", 0) == len(cluster.released)
    assert status["succeeded"] >= completions
    assert status["succeeded"] <= sum(phase == "Succeeded" for phase in cluster.released.values())
    assert cluster.held() == []
