"""Jobs under kill -9 of every part, and pods deleted behind their controller: what ran is what is counted, once."""

import asyncio
import contextlib
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.chaos.parts import PARTS, kill_each, run_installation
from tests.chaos.patience import beside, insist, until
from workers.api import conditions
from workers.api.kinds import JOB, POD, Object, Ref, ref_of
from workers.client.rest import Cluster
from workers.controllers.batch.job.indexes import Indexes, index_of
from workers.errors import ClusterError, Conflict, NotFound

pytestmark = pytest.mark.timeout(420)

TRACKING = "batch.kubernetes.io/job-tracking"
#: Held by every pod the test deletes, so that its end can still be read when all is over.
WITNESS = "chaos.penstock.dev/witness"

#: The first free number among those that pods of this Job have taken.
TICKET = 'n=0; while ! mkdir "{truth}/$n" 2>/dev/null; do n=$((n+1)); done; '
#: Attempts of this index so far.
ATTEMPT = 'i=$JOB_COMPLETION_INDEX; n=0; while ! mkdir "{truth}/$i-$n" 2>/dev/null; do n=$((n+1)); done; '
SUCCEED = 'echo $i >> "{truth}/succeeded"'

INDEXED = {"completionMode": "Indexed"}


@dataclass(frozen=True)
class Ask:
    """A Job's script and spec, and how it must end."""

    script: str
    spec: Object
    end: str
    reason: str


ASKED = {
    # Two pods of the first few fail, and are replaced.
    "flaky": Ask(
        TICKET + "sleep 1; case $n in 1|4) exit 3;; esac; i=$n; " + SUCCEED,
        {"completions": 9, "parallelism": 3, "backoffLimit": 100},
        "Complete",
        "CompletionsReached",
    ),
    "indexed": Ask(
        "i=$JOB_COMPLETION_INDEX; sleep 1.3; " + SUCCEED,
        {**INDEXED, "completions": 14, "parallelism": 4, "backoffLimit": 100},
        "Complete",
        "CompletionsReached",
    ),
    # Index 1 fails once and index 3 for good.
    "per-index": Ask(
        ATTEMPT + "sleep 1; case $i-$n in 1-0|3-*) exit 3;; esac; " + SUCCEED,
        {**INDEXED, "completions": 5, "parallelism": 2, "backoffLimitPerIndex": 1},
        "Failed",
        "FailedIndexes",
    ),
}


@dataclass
class Seen:
    """What the cluster holds when all is over. deleted: uids of pods the test deleted while they ran."""

    jobs: dict[str, Object] = field(default_factory=dict)
    pods: dict[str, list[Object]] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    left: list[str] = field(default_factory=list)


async def listed(cluster: Cluster, name: str) -> list[Object]:
    async def call() -> list[Object]:
        return (await cluster.list(POD, "default", label_selector=f"job-name={name}"))[0]

    return await insist(call)


async def start(cluster: Cluster, name: str, truth: Path) -> None:
    ask = ASKED[name]
    folder = truth / name
    folder.mkdir(parents=True)
    script = ask.script.replace("{truth}", str(folder))
    container = {"name": "main", "image": "none", "command": ["/bin/sh", "-c", script]}
    # The script's own sleep must not outlive a deleted pod for long.
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 2, "containers": [container]}
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"namespace": "default", "name": name}}
    await cluster.create(JOB, {**body, "spec": {**ask.spec, "template": {"spec": pod}}})


async def delete_some(cluster: Cluster, seen: Seen, name: str, number: int) -> None:
    """Running pods of this Job, by a witness finalizer and a deletion; every second one without any grace."""
    done: set[str] = set()
    while len(done) < number:
        await asyncio.sleep(1.5)
        running = [pod for pod in await listed(cluster, name) if _runs(pod) and pod["metadata"]["uid"] not in done]
        if not running:
            if await _over(cluster, name):
                return
            continue
        pod = random.choice(running)
        uid, ref = pod["metadata"]["uid"], ref_of(POD, pod)
        with contextlib.suppress(ClusterError):
            await _hold(cluster, pod)
            seen.deleted.add(uid)
            await insist(lambda ref=ref, uid=uid: cluster.delete(ref, uid=uid, grace=0 if len(done) % 2 else None))
            done.add(uid)


def _runs(pod: Object) -> bool:
    return pod["status"].get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp")


async def _hold(cluster: Cluster, pod: Object) -> None:
    metadata = pod["metadata"]
    kept = [*metadata.get("finalizers", ()), WITNESS]
    patch = {"metadata": {"resourceVersion": metadata["resourceVersion"], "finalizers": kept}}
    await cluster.patch(ref_of(POD, pod), patch)


async def _over(cluster: Cluster, name: str) -> bool:
    return bool(conditions.finished(await insist(lambda: cluster.get(Ref(JOB, "default", name)))))


async def _let_go(cluster: Cluster, seen: Seen) -> None:
    """Take the test's own finalizer off the pods it deleted."""
    for pods in seen.pods.values():
        for pod in pods:
            if pod["metadata"]["uid"] in seen.deleted:
                body = {"metadata": {"finalizers": None}}
                with contextlib.suppress(NotFound, Conflict):
                    await insist(lambda pod=pod, body=body: cluster.patch(ref_of(POD, pod), body))


async def happen(cluster: Cluster, truth: Path, seen: Seen) -> None:
    for name in ASKED:
        await start(cluster, name, truth)
    works = (
        kill_each(PARTS.keys() - {"scaler"}, 2, 2.0),
        delete_some(cluster, seen, "flaky", 2),
        delete_some(cluster, seen, "indexed", 3),
    )

    async def ended() -> bool:
        return all([await _over(cluster, name) for name in ASKED])

    async def free() -> bool:
        pods = [pod for name in ASKED for pod in await listed(cluster, name)]
        return not any(TRACKING in pod["metadata"].get("finalizers", ()) for pod in pods)

    try:
        async with beside(*works) as disturbing:
            await asyncio.gather(*disturbing)
            await until(ended)
            await until(free)
    finally:
        for name in ASKED:
            seen.jobs[name] = await insist(lambda name=name: cluster.get(Ref(JOB, "default", name)))
            seen.pods[name] = await listed(cluster, name)
    await _let_go(cluster, seen)
    for name in ASKED:
        await insist(lambda name=name: cluster.delete(Ref(JOB, "default", name)))

    async def gone() -> bool:
        seen.left = [pod["metadata"]["name"] for name in ASKED for pod in await listed(cluster, name)]
        return not seen.left

    await until(gone)


def check(name: str, seen: Seen, truth: Path) -> None:
    """The Job says of its pods what became of them. A pod that was deleted may count as failed and still succeed."""
    ask, status = ASKED[name], seen.jobs[name]["status"]
    finished = conditions.find(seen.jobs[name], ask.end) or {}
    assert (finished.get("status"), finished.get("reason")) == ("True", ask.reason), status
    pods = seen.pods[name]
    phases = Counter(pod["status"]["phase"] for pod in pods)
    assert set(phases) <= {"Succeeded", "Failed"}, phases
    ambiguous = sum(pod["metadata"]["uid"] in seen.deleted and pod["status"]["phase"] == "Succeeded" for pod in pods)
    counted = status.get("failed", 0)
    assert phases["Failed"] <= counted <= phases["Failed"] + ambiguous, (status, phases)
    if ask.spec.get("completionMode") != "Indexed":
        assert status["succeeded"] + counted == len(pods), (status, phases)
        assert status["succeeded"] == ask.spec["completions"]
        return
    completed = Indexes.parse(status["completedIndexes"])
    assert status["succeeded"] == len(completed)
    successes = Counter(index_of(pod) for pod in pods if pod["status"]["phase"] == "Succeeded")
    unasked = Counter(
        index_of(pod)
        for pod in pods
        if pod["metadata"]["uid"] in seen.deleted and pod["status"]["phase"] == "Succeeded"
    )
    for index in completed:
        assert 1 <= successes[index] <= 1 + unasked[index], (index, successes, unasked)
    assert {int(line) for line in (truth / name / "succeeded").read_text().split()} >= set(completed)
    if "backoffLimitPerIndex" in ask.spec:
        assert (status["completedIndexes"], status["failedIndexes"]) == ("0-2,4", "3")
        assert counted == 3
    else:
        assert len(completed) == ask.spec["completions"]


def test_jobs_count_what_really_ran_whatever_dies(tmp_path: Path):
    random.seed(5)
    seen, truth = Seen(), tmp_path / "truth"
    run_installation(tmp_path / "home", lambda cluster, _: happen(cluster, truth, seen))
    assert set(seen.jobs) == set(ASKED), "the installation did not get as far as the Jobs"
    assert seen.left == []
    for name in ASKED:
        check(name, seen, truth)
