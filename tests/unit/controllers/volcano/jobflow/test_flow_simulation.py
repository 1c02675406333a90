"""Flows of any shape, in a cluster where anything may stop anywhere: order, number of runs, and an end."""

import re
from collections import Counter
from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.controllers.volcano.jobflow.flow_cluster import ENDED, Cluster
from workers.admission.volcano import jobflow as admission
from workers.api.volcano import jobflow as manifest
from workers.controllers.volcano.jobflow import dependencies, node_progress, status
from workers.controllers.volcano.jobflow import graph as graphs

MEDDLING = ("suspend", "resume", "cancel")
HOW = ("Completed", "Completed", "Completed", "Failed", "Terminated")


@st.composite
def entries(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Up to seven entries, each depending on some before it."""
    made: list[dict[str, Any]] = []
    for index in range(draw(st.integers(1, 7))):
        entry: dict[str, Any] = {"name": f"e{index}", "template": "t"}
        earlier = [each["name"] for each in made]
        if targets := draw(st.lists(st.sampled_from(earlier), unique=True, max_size=3)) if earlier else []:
            entry["dependsOn"] = {"targets": targets}
            if draw(st.booleans()):
                ends = st.lists(st.sampled_from(["Completed", "Failed", "Skipped"]), min_size=1, unique=True)
                entry["when"] = {"phases": draw(ends), "match": draw(st.sampled_from(["all", "any"]))}
        if draw(st.booleans()):
            entry["retry"] = {"limit": draw(st.integers(0, 2)), "backoffSeconds": draw(st.sampled_from([0, 7]))}
        if draw(st.integers(0, 4)) == 0:
            entry["forEach"] = {"count": draw(st.integers(0, 3)), "parallelism": draw(st.integers(1, 2))}
        if draw(st.integers(0, 4)) == 0:
            entry["if"] = "${index} != 1" if "forEach" in entry else "${flow} == 'g'"
        if draw(st.integers(0, 4)) == 0:
            entry["timeoutSeconds"] = 20
        entry["allowFailure"] = draw(st.booleans())
        made.append(entry)
    return draw(st.permutations(made))


def entry_of(job: str) -> str:
    found = re.match(r"f-(e\d+)", job)
    assert found
    return found[1]


def allowed(flows: list[dict[str, Any]], id: str) -> bool:
    """Returns True if an entry may fail."""
    return any(each["name"] == entry_of(f"f-{id}") and each["allowFailure"] for each in flows)


def check_memory(cluster: Cluster, known: dict[str, str]) -> None:
    """An end that was written down stands, until another try begins. known: those so far."""
    if cluster.status.get("retried") != known.get("retried"):
        known.clear()
        known["retried"] = cluster.status["retried"]
    written = {id: each["phase"] for id, each in (cluster.status.get("entries") or {}).items() if "phase" in each}
    assert {id: written.get(id) for id in known if id != "retried"} == {
        id: phase for id, phase in known.items() if id != "retried"
    }
    known |= {id: phase for id, phase in written.items() if phase in (*ENDED, "Skipped")}


def check_order(cluster: Cluster, at: int, ended: dict[str, str]) -> None:
    """Asserts that Jobs created since `at` had their dependencies by Volcano's rule. ended: phases of ended Jobs."""
    by_name = {entry["name"]: entry for entry in cluster.body["spec"]["flows"]}
    for job in cluster.made[at:]:
        entry = by_name[entry_of(job)]
        if "when" in entry:
            continue
        for target in (entry.get("dependsOn") or {}).get("targets", ()):
            wanted = by_name[target].get("forEach", {}).get("count", 1)
            done = {re.sub(r"-r\d+$", "", name) for name, how in ended.items() if how == "Completed"}
            assert sum(entry_of(name) == target for name in done) == wanted or "if" in by_name[target], (job, target)


def check_freshness(cluster: Cluster) -> None:
    """Asserts that each Job that ran belongs to the last attempt of its dependencies, whose ends let it run."""
    graph = graphs.of(cluster.body)
    written = {id: node_progress.read(each) for id, each in (cluster.status.get("entries") or {}).items()}
    known = {node.id: written.get(node.id, node_progress.Track()) for node in graph.nodes}
    outcomes = {name: dependencies.outcome(known[node.id] for node in nodes) for name, nodes in graph.members.items()}
    # No Job proves a skip: if its write was lost, and the flow failed or was cancelled next, it is never written.
    outcomes |= {
        name: node_progress.SKIPPED
        for name, nodes in graph.members.items()
        if outcomes[name] is None and not any(known[node.id].attempts for node in nodes)
    }
    for entry in graph.order:
        ran = [known[node.id] for node in graph.members[entry.name] if known[node.id].over and known[node.id].job]
        if not ran:
            continue
        found = dependencies.verdict(entry, outcomes, lambda _: False)
        assert found is dependencies.DependencyState.START, (entry.name, outcomes)
        if entry.when and entry.when.match == "any":
            continue
        first = min(cluster.made.index(track.job or "") for track in ran)
        for node in (node for target in entry.targets for node in graph.members[target]):
            if job := known[node.id].job:
                assert cluster.made.index(job) < first, (job, ran)


def happen(cluster: Cluster, data: st.DataObject, ended: dict[str, str]) -> None:
    """Something happens, to the flow, its Jobs or its controller. ended: Jobs, by what came of them."""
    match data.draw(
        st.sampled_from(["work", "work", "die", "end", "end", "clean", "lag", "see", "wait", "obey", *MEDDLING])
    ):
        case "work":
            cluster.reconcile()
        case "die":
            cluster.reconcile(dies_after=data.draw(st.integers(0, 4)))
        case "end" if cluster.unfinished():
            name = data.draw(st.sampled_from(sorted(cluster.unfinished())))
            ended[name] = data.draw(st.sampled_from(HOW))
            cluster.end(name, ended[name])
        case "clean" if cluster.ttl is not None and (over := cluster.cleanable()):
            cluster.remove(data.draw(st.sampled_from(over)))
        case "lag":
            cluster.lagging = True
        case "see":
            cluster.catch_up()
        case "wait":
            cluster.wait(data.draw(st.sampled_from([1, 10, 40])))
        case "obey":
            cluster.obey()
        case "suspend":
            cluster.edit(suspend=True)
        case "resume":
            cluster.edit(suspend=None)
        case "cancel" if data.draw(st.integers(0, 4)) == 0:
            cluster.edit(cancel=True)
        case _:
            pass


@settings(max_examples=150)
@given(flows=entries(), ttl=st.sampled_from([None, 0, 30]), data=st.data())
def test_order_number_of_runs_and_an_end(flows: list[dict[str, Any]], ttl: int | None, data: st.DataObject) -> None:
    """Also with the delayed status writes of long flows."""
    short, long = data.draw(st.sampled_from([(0, 0), (0, 200), (100, 200)]))
    with patch.object(status, "SHORT", short), patch.object(status, "LONG", long):
        check(flows, ttl, data)


def check(flows: list[dict[str, Any]], ttl: int | None, data: st.DataObject) -> None:
    parallelism = data.draw(st.sampled_from([None, 1, 2]))
    cluster = Cluster(*flows, ttl=ttl, **({"parallelism": parallelism} if parallelism else {}))
    assert admission.faults("f", manifest.parse(cluster.body).spec) == []
    ended: dict[str, str] = {}
    known: dict[str, str] = {}
    for tries in range(data.draw(st.integers(1, 3))):
        if tries:
            cluster.edit(cancel=None)
            cluster.annotate(**{manifest.RETRY: str(tries)})
        for _ in range(data.draw(st.integers(0, 10 if tries else 30))):
            at = len(cluster.made)
            happen(cluster, data, ended)
            check_order(cluster, at, ended)
            check_memory(cluster, known)
            assert parallelism is None or len(cluster.unfinished()) <= parallelism or ttl == 0
        check_end(cluster, data, ended, known)
        bad = [id for id, phase in known.items() if phase in ("Failed", "Terminated") and not allowed(flows, id)]
        assert cluster.phase == "Terminated" or (cluster.phase == "Succeed") == (not bad)
        assert cluster.phase != "Terminated" or cluster.body["spec"].get("cancel")
        runs = Counter(re.sub(r"-r\d+$", "", name) for name in cluster.made)
        limits = {each["name"]: 1 + each.get("retry", {}).get("limit", 0) for each in flows}
        assert all(number <= limits[entry_of(job)] * (tries + 1) for job, number in runs.items()), runs
        assert max(Counter(cluster.made).values(), default=1) == 1


def check_end(cluster: Cluster, data: st.DataObject, ended: dict[str, str], known: dict[str, str]) -> None:
    """The flow comes to an end without further interference. ended, known: as in the checks above."""
    cluster.edit(suspend=None)
    for _ in range(80):
        at = len(cluster.made)
        cluster.catch_up()
        cluster.settle()
        check_order(cluster, at, ended)
        check_memory(cluster, known)
        if cluster.over:
            break
        cluster.obey()
        for name in cluster.unfinished():
            ended[name] = data.draw(st.sampled_from(HOW))
            cluster.end(name, ended[name])
        cluster.wait(15)
    assert cluster.over, cluster.status
    if cluster.ttl is None:
        # Of a Job that is cleaned up at once an end may be acted on that nobody came to writing down.
        check_freshness(cluster)
