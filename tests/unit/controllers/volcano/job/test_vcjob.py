"""A Volcano Job from its creation to its end, decision by decision."""

import pytest

from tests.support.tables import cases, for_each
from tests.unit.controllers.factories import NOW, UID, at
from tests.unit.controllers.volcano.job.vcjob_cluster import SITE, VcJobCluster
from tests.unit.controllers.volcano.job.vcjobs import task, vcjob
from workers.api.kinds import CONFIG_MAP, PERSISTENT_VOLUME_CLAIM, POD, POD_GROUP, QUEUE, SECRET, VC_JOB, Object, Ref
from workers.controllers.volcano.job import decide
from workers.decision.plan import NOTHING
from workers.decision.snapshot import Snapshot

THREE = task(replicas=3)
ALL = ["train-worker-0", "train-worker-1", "train-worker-2"]
SVC = {"plugins": {"svc": [], "env": [], "ssh": []}}


def begun(*tasks: Object, **spec) -> VcJobCluster:
    """A job whose pods run."""
    cluster = VcJobCluster(vcjob(*(tasks or (THREE,)), **spec)).start()
    assert cluster.phase == "Running"
    return cluster


def reasons(cluster: VcJobCluster) -> list[str]:
    return [reason for reason, _ in cluster.events]


def conditions(cluster: VcJobCluster) -> list[str]:
    return [one["status"] for one in cluster.status["conditions"]]


# A healthy life


def test_a_healthy_job():
    cluster = VcJobCluster(vcjob(THREE, **SVC), admitting=False).settle()
    assert (cluster.phase, cluster.alive()) == ("Pending", [])
    assert cluster.kinds() == {"PodGroup", "ConfigMap", "Service", "NetworkPolicy", "Secret"}
    cluster.grouped("Inqueue").settle()
    assert (cluster.phase, cluster.alive(), cluster.status["pending"]) == ("Pending", ALL, 3)
    cluster.run("train-worker-0", "train-worker-1").settle()
    assert (cluster.phase, cluster.status["running"], cluster.status["pending"]) == ("Pending", 2, 1)
    cluster.run().settle()
    assert (cluster.phase, cluster.status["running"]) == ("Running", 3)
    assert cluster.status["controlledResources"] == {"plugin-svc": "svc", "plugin-env": "env", "plugin-ssh": "ssh"}
    cluster.second = 90
    cluster.end().settle()
    assert cluster.phases == ["Pending", "Running", "Completed"] == conditions(cluster)
    assert cluster.kinds() == {"Pod"}, "all that was made for the pods is gone, they are not"
    status = cluster.status
    assert (status["succeeded"], status["version"], status["runningDuration"]) == (3, 1, "2m30s")
    assert status["taskStatusCount"] == {"worker": {"phase": {"Succeeded": 3}}}
    assert not {"controlledResources", "running", "killing"} & set(status)


@for_each("Completed", "Failed")
def test_the_end_is_written_before_the_podgroup_goes_and_a_killed_process_leaves_it_to_the_next(end):
    """As in Volcano: a client that sees the final phase may still find the PodGroup."""
    cluster = begun().end(*(("Failed", 1) if end == "Failed" else ()))
    cluster.budget = 1
    cluster.sync()
    assert (cluster.phase, cluster.group is not None) == (end, True)
    cluster.settle()
    assert (cluster.phase, cluster.group) == (end, None)


def test_a_healthy_job_of_three_pods_costs_four_status_writes():
    cluster = VcJobCluster(vcjob(THREE)).start()
    cluster.end().settle()
    assert cluster.writes.count("PatchStatus") == 4
    assert sorted(set(cluster.writes)) == ["Create", "Delete", "PatchStatus"]
    assert len(cluster.writes) == 9


def test_a_finished_job_keeps_its_counts_and_its_phase_when_its_pods_change():
    cluster = begun()
    cluster.end().settle()
    before = cluster.status
    cluster.delete("train-worker-0")
    cluster.edit(tasks=[task(replicas=5)])
    cluster.command("ResumeJob", "again")
    cluster.command("RestartJob", "anew").settle()
    assert cluster.status == {**before, "observedGeneration": 2}
    assert cluster.alive() == ALL[1:]
    assert "Command" not in cluster.kinds()


def test_a_change_of_a_finished_job_is_reported_once():
    cluster = begun()
    cluster.end().settle()
    assert "ChangeIgnored" not in reasons(cluster)
    cluster.edit(tasks=[task(replicas=5)]).settle()
    cluster.settle()
    assert cluster.events[-1] == (
        "ChangeIgnored",
        "the job is Completed and never runs again: of its spec only ttlSecondsAfterFinished still has an effect",
    )
    assert reasons(cluster).count("ChangeIgnored") == 1
    assert cluster.alive() == ALL


def test_a_change_while_the_job_is_at_work_is_not_reported_when_it_ends():
    cluster = begun()
    cluster.end()
    cluster.edit(ttlSecondsAfterFinished=60).settle()
    assert (cluster.phase, "ChangeIgnored" in reasons(cluster)) == ("Completed", False)


def test_pods_that_still_run_when_enough_succeeded_are_killed():
    cluster = begun(minSuccess=1)
    cluster.set("train-worker-2", "Succeeded").settle()
    assert (cluster.phase, cluster.alive()) == ("Completed", ["train-worker-2"])
    assert cluster.status["succeeded"] == 1
    assert "terminating" not in cluster.status


def test_a_job_that_is_gone_or_being_deleted_is_left_alone():
    assert decide(Snapshot(Ref(VC_JOB, "default", "train"), None), NOW, SITE) == NOTHING
    leaving = vcjob(metadata={"deletionTimestamp": at(0)})
    cluster = VcJobCluster(leaving)
    assert cluster.plan() == NOTHING


# What pods wait for


def test_no_pod_is_touched_while_the_gang_waits_and_the_reason_is_reported_once():
    cluster = VcJobCluster(vcjob(THREE), admitting=False).settle()
    unschedulable = {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": "3/3 wait"}
    cluster.grouped("Pending", conditions=[unschedulable]).settle()
    told = ("PodGroupPending", "PodGroup default:train unschedulable, reason: NotEnoughResources: 3/3 wait")
    assert cluster.events == [told]
    assert (cluster.state["reason"], cluster.state["message"]) == told
    assert cluster.alive() == []
    cluster.grouped("Inqueue", conditions=[unschedulable]).settle()
    assert cluster.alive() == ALL
    assert "reason" not in cluster.state


def test_the_reason_of_a_gang_that_waits_is_an_event_and_its_numbers_are_none():
    cluster = VcJobCluster(vcjob(THREE), admitting=False).settle()
    given = [("NotEnoughResources", "1 cpu left"), ("NotEnoughResources", "2 cpu left"), ("Not", "1"), ("", "1 left")]
    for reason, message in given:
        unschedulable = {"type": "Unschedulable", "status": "True", "reason": reason, "message": message}
        cluster.grouped("Pending", conditions=[unschedulable]).settle()
        text = f"{reason}: {message}" if reason else message
        assert cluster.state["message"] == f"PodGroup default:train unschedulable, reason: {text}"
    told = [message.removeprefix("PodGroup default:train unschedulable, reason: ") for _, message in cluster.events]
    assert told == ["NotEnoughResources: 1 cpu left", "Not: 1", "1 left"]


@cases(
    ("given up", "True", "WaitingLimitExceeded", "Terminated"),
    ("it was, and may be asked again", "False", "WaitingLimitExceeded", "Pending"),
    ("it waits", "True", "NotEnoughResources", "Pending"),
)
def test_a_job_whose_gang_is_given_up_does_not_wait_for_ever(held, reason, phase):
    cluster = VcJobCluster(vcjob(THREE), admitting=False).settle()
    condition = {"type": "Unschedulable", "status": held, "reason": reason, "message": "not within 2h"}
    cluster.grouped("Pending", conditions=[condition]).settle()
    assert cluster.phase == phase
    if phase == "Terminated":
        assert (cluster.state["reason"], cluster.state["message"]) == (reason, "not within 2h")
        assert cluster.group is None, "it would stand in line for nothing"


def test_a_job_that_needs_no_pod_to_run_ends_when_its_gang_is_given_up():
    none = [task("worker", 3, minAvailable=0)]
    cluster = VcJobCluster(vcjob(*none, metadata={"generation": 2}, minAvailable=0), admitting=False).settle()
    assert cluster.phase == "Running"
    condition = {
        "type": "Unschedulable",
        "status": "True",
        "reason": "WaitingLimitExceeded",
        "message": "not within 2h",
    }
    cluster.grouped("Pending", conditions=[condition]).settle()
    assert (cluster.phase, cluster.state["reason"]) == ("Terminated", "WaitingLimitExceeded")


def test_a_job_at_work_ignores_an_earlier_condition_of_its_group():
    cluster = begun()
    condition = {
        "type": "Unschedulable",
        "status": "True",
        "reason": "WaitingLimitExceeded",
        "message": "not within 2h",
    }
    cluster.grouped("Running", conditions=[condition]).settle()
    assert cluster.phase == "Running"


def test_that_a_gang_has_grown_is_no_event():
    cluster = VcJobCluster(vcjob(THREE), admitting=False).settle()
    few = {"type": "Unschedulable", "status": "True", "reason": "NotEnoughTasks", "message": "1 of 3 have a node"}
    cluster.grouped("Pending", conditions=[few]).settle()
    text = "PodGroup default:train is not ready, reason: NotEnoughTasks: 1 of 3 have a node"
    assert cluster.state["message"] == text
    assert cluster.events == []


def test_pods_are_not_touched_when_the_gang_is_pending_again():
    cluster = begun()
    cluster.admitting = False
    cluster.grouped("Pending")
    cluster.delete("train-worker-1")
    cluster.edit(tasks=[task(replicas=1)]).settle()
    assert cluster.alive() == ["train-worker-0", "train-worker-2"]


def test_a_missing_queue_is_named_and_looked_for_again():
    cluster = VcJobCluster(vcjob(THREE), queue=False).settle()
    assert (cluster.state["reason"], cluster.state["message"]) == ("QueueNotFound", "queue default does not exist")
    assert cluster.kinds() == set()
    assert cluster.back == 5
    assert reasons(cluster) == ["PodGroupError"]
    cluster.put(Ref(QUEUE, "", "default"), {"metadata": {"name": "default"}})
    cluster.wait(5)
    assert (cluster.alive(), cluster.state.get("reason")) == (ALL, None)


def test_a_queue_that_goes_while_the_job_runs_takes_nothing_with_it():
    cluster = begun()
    del cluster.objects[Ref(QUEUE, "", "default")]
    cluster.end().settle()
    assert cluster.phase == "Completed"


def test_a_job_at_work_whose_queue_goes_looks_for_it_again():
    """The creation of a queue does not notify the Job."""
    cluster = begun()
    del cluster.objects[Ref(QUEUE, "", "default")]
    cluster.delete("train-worker-1").settle()
    assert (cluster.phase, cluster.state["reason"], cluster.back) == ("Running", "QueueNotFound", 5)
    cluster.put(Ref(QUEUE, "", "default"), {"metadata": {"name": "default"}}).wait(5)
    assert (cluster.alive(), cluster.state["reason"], cluster.back) == (ALL, "TooFewPods", None)


def test_a_missing_claim_is_named_and_looked_for_again():
    cluster = VcJobCluster(vcjob(THREE, volumes=[{"mountPath": "/data", "volumeClaimName": "shared"}])).settle()
    assert (cluster.state["reason"], cluster.state["message"]) == ("PVCNotFound", "pvc shared not found")
    assert (cluster.kinds(), cluster.back) == (set(), 5)
    cluster.put(Ref(PERSISTENT_VOLUME_CLAIM, "default", "shared"), {"metadata": {"name": "shared"}})
    cluster.wait(5)
    assert cluster.alive() == ALL
    assert cluster.status["controlledResources"] == {"volume-pvc-shared": "shared"}


@cases(("before its first pod", False), ("after a restart", True))
def test_a_claim_that_goes_after_the_admission_holds_the_pods_of_a_pending_job(restarted):
    claim = Ref(PERSISTENT_VOLUME_CLAIM, "default", "shared")
    cluster = VcJobCluster(vcjob(THREE, volumes=[{"mountPath": "/data", "volumeClaimName": "shared"}]), admitting=False)
    cluster.put(claim, {"metadata": {"name": "shared"}}).settle()
    if restarted:
        cluster.grouped("Inqueue").start()
        cluster.command("RestartJob").settle()
    del cluster.objects[claim]
    cluster.grouped("Inqueue").settle()
    assert (cluster.phase, cluster.state["reason"], cluster.alive()) == ("Pending", "PVCNotFound", [])
    cluster.put(claim, {"metadata": {"name": "shared"}}).wait(5)
    assert (cluster.alive(), cluster.state.get("reason")) == (ALL, None)


def test_a_running_job_outlives_a_claim_of_others():
    cluster = VcJobCluster(vcjob(THREE, volumes=[{"mountPath": "/data", "volumeClaimName": "shared"}]))
    cluster.put(Ref(PERSISTENT_VOLUME_CLAIM, "default", "shared"), {"metadata": {"name": "shared"}}).start()
    del cluster.objects[Ref(PERSISTENT_VOLUME_CLAIM, "default", "shared")]
    cluster.delete("train-worker-1").settle()
    assert cluster.alive() == ALL, "only the initiation of a job checks its claims, as in Volcano"


def test_a_claim_of_the_jobs_own_is_made_once_and_outlives_its_restarts():
    volume = {"mountPath": "/data", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}}
    cluster = begun(volumes=[volume])
    cluster.command("RestartJob").settle()
    assert cluster.alive() == ALL
    claims = [ref.name for ref in cluster.objects if ref.kind == PERSISTENT_VOLUME_CLAIM]
    assert len(claims) == 1
    assert cluster.status["controlledResources"] == {f"volume-pvc-{claims[0]}": claims[0]}


def test_a_task_waits_for_the_one_it_depends_on_and_its_gang_grows_with_it():
    cluster = VcJobCluster(vcjob(task("ps"), task("worker", 2, dependsOn={"name": ["ps"]}))).settle()
    assert cluster.alive() == ["train-ps-0"]
    assert cluster.group["spec"]["minMember"] == 1
    cluster.run().settle()
    assert cluster.alive() == ["train-ps-0", "train-worker-0", "train-worker-1"]
    assert cluster.group["spec"]["minMember"] == 3
    cluster.set("train-ps-0", "Succeeded")
    cluster.run().settle()
    assert (cluster.phase, cluster.group["spec"]["minMember"]) == ("Running", 3)


def test_a_queue_with_clusters_of_its_own_marks_the_job_and_its_pods():
    cluster = VcJobCluster(vcjob(THREE), queue=False)
    queue = {"metadata": {"name": "default"}, "spec": {"extendClusters": [{"name": "far"}]}}
    cluster.put(Ref(QUEUE, "", "default"), queue).settle()
    assert cluster.job["metadata"]["annotations"] == {"volcano.sh/job-forwarding": "true"}
    assert cluster.pods["train-worker-0"]["metadata"]["labels"]["volcano.sh/job-forwarding"] == "true"


# Pods come and go


def test_a_pod_that_a_user_deleted_is_created_again_once_it_is_gone():
    cluster = begun()
    cluster.stubborn = True
    cluster.delete("train-worker-1").settle()
    assert (cluster.status["terminating"], cluster.status["running"]) == (1, 2)
    assert cluster.alive() == ["train-worker-0", "train-worker-2"]
    cluster.reap().settle()
    assert cluster.alive() == ALL


def test_a_task_is_scaled_up_and_down_the_highest_go():
    cluster = begun(task(replicas=2), minAvailable=1)
    cluster.edit(tasks=[task(replicas=4)]).settle()
    assert len(cluster.alive()) == 4
    cluster.run()
    cluster.edit(tasks=[task(replicas=1)]).settle()
    assert cluster.alive() == ["train-worker-0"]
    assert cluster.status["taskStatusCount"] == {"worker": {"phase": {"Running": 1}}}
    assert "version" not in cluster.status, "pods beyond the replicas were not evicted"


def test_a_deleted_plugin_object_is_created_again():
    cluster = begun(**SVC)
    del cluster.objects[Ref(CONFIG_MAP, "default", "train-svc")]
    cluster.settle()
    assert "ConfigMap" in cluster.kinds()


def test_a_deleted_secret_is_created_again_before_a_pod_that_needs_it():
    """Secrets are not observed; without it the pod would wait for ever."""
    cluster = begun(**SVC)
    del cluster.objects[Ref(SECRET, "default", "train-ssh")]
    cluster.delete("train-worker-1").settle()
    assert (cluster.alive(), "Secret" in cluster.kinds()) == (ALL, True)


@for_each(*range(9))
def test_a_secret_of_a_plan_that_was_cut_short_goes_with_the_end_of_a_partial_restart(budget):
    cluster = VcJobCluster(vcjob(plugins={"ssh": []}, maxRetry=1))
    cluster.budget = budget
    cluster.sync()
    cluster.command("RestartTask").settle()
    assert (cluster.phase, cluster.kinds()) == ("Failed", set())


def test_a_deleted_podgroup_is_created_again():
    cluster = begun()
    name = cluster.group["metadata"]["name"]
    del cluster.objects[Ref(POD_GROUP, "default", name)]
    cluster.settle()
    assert cluster.group["metadata"]["name"] == name
    assert (cluster.phase, cluster.alive()) == ("Running", ALL)


@cases(("of the Job", True), ("of another owner", False))
def test_a_podgroup_of_the_jobs_name_is_used_if_the_job_owns_it(owned):
    """Older versions of Volcano named it so."""
    cluster = VcJobCluster(vcjob(THREE), admitting=False)
    owner = [{"uid": UID if owned else "other", "controller": True}]
    old = Ref(POD_GROUP, "default", "train")
    cluster.put(old, {"metadata": {"name": "train", "namespace": "default", "ownerReferences": owner}, "spec": {}})
    cluster.settle()
    groups = [ref.name for ref in cluster.objects if ref.kind == POD_GROUP]
    assert groups == (["train"] if owned else ["train", f"train-{UID}"])
    assert cluster.objects[old]["spec"].get("minMember") == (3 if owned else None), "it is brought up to date"
    current = Ref(POD_GROUP, "default", groups[-1])
    cluster.put(current, {**cluster.objects[current], "status": {"phase": "Inqueue"}}).settle()
    pods = {pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] for pod in cluster.pods.values()}
    assert (cluster.alive(), pods) == (ALL, {groups[-1]})
    cluster.command("TerminateJob").settle()
    assert [ref.name for ref in cluster.objects if ref.kind == POD_GROUP] == ([] if owned else ["train"])


def test_a_pod_of_an_older_version_that_came_late_goes():
    """A process that was cut off while it made pods makes one after all."""
    cluster = begun()
    late = cluster.pods["train-worker-1"]
    cluster.command("RestartJob").settle()
    cluster.put(Ref(POD, "default", "train-worker-1"), {**late, "metadata": {**late["metadata"], "uid": "late"}})
    cluster.settle()
    pod = cluster.pods["train-worker-1"]
    assert (pod["metadata"]["uid"] != "late", pod["metadata"]["annotations"]["volcano.sh/job-version"]) == (True, "1")


def test_pods_that_do_not_say_what_they_are_of_are_left_alone():
    cluster = begun()
    stranger = {**cluster.pods["train-worker-0"], "metadata": {**cluster.pods["train-worker-0"]["metadata"]}}
    stranger["metadata"] |= {"name": "stranger", "annotations": {}, "uid": "stranger"}
    cluster.put(Ref(POD, "default", "stranger"), stranger)
    cluster.command("AbortJob").settle()
    assert (cluster.phase, cluster.alive()) == ("Aborted", ["stranger"])


def test_a_pod_that_cannot_be_made_is_why_the_job_does_not_get_on():
    cluster = VcJobCluster(vcjob(THREE))
    cluster.refused["train-worker-1"] = "exceeded quota: pods"
    for _ in range(6):
        cluster.sync()
        cluster.admit()
    assert (cluster.state["reason"], cluster.state["message"]) == ("Retrying", "exceeded quota: pods")
    assert cluster.status["pending"] == 1
    cluster.refused.clear()
    cluster.settle()
    assert (cluster.alive(), cluster.state.get("reason")) == (ALL, None)


# Bad input


@cases(
    ("an unknown plugin", {"plugins": {"magic": []}}, "magic"),
    ("more must run than there are", {"minAvailable": 4}, "spec.minAvailable"),
    ("an unknown event", {"policies": [{"event": "Rain", "action": "AbortJob"}]}, "Rain"),
    ("what the schema refuses", {"maxRetry": -1}, "maxRetry"),
)
def test_a_job_that_cannot_be_run_says_so_until_it_is_changed(spec, named):
    cluster = VcJobCluster(vcjob(THREE, **spec)).settle()
    assert (cluster.phase, cluster.state["reason"]) == ("Pending", "Invalid")
    assert named in cluster.state["message"]
    assert reasons(cluster) == ["Invalid"]
    assert (cluster.kinds(), cluster.back) == (set(), None)
    cluster.edit(plugins={}, minAvailable=3, policies=[], maxRetry=3).settle()
    assert (cluster.alive(), cluster.state.get("reason")) == (ALL, None)


UNFIT = [{"plugins": {"magic": [], "ssh": []}}, {"minAvailable": 4}, {"maxRetry": -1}]


@pytest.mark.parametrize("spec", UNFIT)
@for_each(("TerminateJob", "Terminated"), ("CompleteJob", "Completed"), ("AbortJob", "Aborted"))
def test_a_job_that_cannot_be_run_can_be_ended(action, phase, spec):
    cluster = VcJobCluster(vcjob(THREE, **spec)).settle()
    cluster.command(action).settle()
    assert (cluster.phase, cluster.state["reason"], cluster.kinds()) == (phase, "CommandIssued", set())
    assert set(cluster.writes) == {"PatchStatus", "Delete"}, "nothing was made for it"
    assert cluster.status.get("controlledResources") is None


@pytest.mark.parametrize("spec", UNFIT)
def test_a_job_that_cannot_be_run_is_judged_again_when_it_is_resumed(spec):
    cluster = VcJobCluster(vcjob(THREE, suspend=True, **spec)).settle()
    assert (cluster.phase, cluster.state["reason"], reasons(cluster)[0]) == ("Aborted", "Suspended", "Invalid")
    cluster.edit(suspend=False).settle()
    assert (cluster.phase, cluster.state["reason"], cluster.kinds()) == ("Pending", "Invalid", set())
    cluster.command("AbortJob").settle().command("ResumeJob").settle()
    assert (cluster.phase, cluster.state["reason"], cluster.kinds()) == ("Pending", "Invalid", set())
    cluster.edit(plugins={}, minAvailable=3, maxRetry=3).settle()
    assert (cluster.alive(), cluster.state.get("reason")) == (ALL, None)


@for_each("RestartJob", "ResumeJob", "Nonsense")
def test_a_command_without_effect_on_a_job_that_cannot_be_run_is_consumed(action):
    cluster = VcJobCluster(vcjob(THREE, minAvailable=4)).settle()
    cluster.command(action).settle()
    assert (cluster.phase, cluster.state["reason"], cluster.kinds()) == ("Pending", "Invalid", set())
    assert reasons(cluster)[1] == "CommandIssued"
    assert cluster.status.get("handled") is None


def test_a_job_whose_plugins_became_invalid_can_be_ended():
    cluster = begun(plugins={"svc": [], "ssh": []})
    cluster.edit(plugins={"svc": [], "ssh": [], "magic": []}).settle()
    cluster.command("TerminateJob").settle()
    assert (cluster.phase, cluster.kinds()) == ("Terminated", set())


def test_a_running_job_whose_spec_became_unreadable_goes_on_once_it_is_readable():
    cluster = begun()
    cluster.edit(maxRetry=-1).settle()
    assert (cluster.phase, cluster.state["reason"], cluster.alive()) == ("Running", "Invalid", ALL)
    cluster.edit(maxRetry=3).settle()
    assert (cluster.phase, cluster.state.get("reason")) == ("Running", None)


def test_a_pending_job_whose_spec_became_invalid_is_not_judged_as_a_new_one():
    cluster = VcJobCluster(vcjob(THREE)).settle()
    assert (cluster.phase, cluster.alive()) == ("Pending", ALL)
    cluster.edit(plugins={"magic": []}).settle()
    assert (cluster.phase, cluster.state["reason"], cluster.alive()) == ("Pending", "Invalid", ALL)
    cluster.edit(plugins={}, minAvailable=4).settle()
    assert (cluster.phase, cluster.state.get("reason"), cluster.alive()) == ("Pending", None, ALL)


def test_a_job_edited_to_no_least_number_of_pods_has_none():
    cluster = begun()
    cluster.edit(minAvailable=0).settle()
    assert (cluster.group["spec"]["minMember"], cluster.status["minAvailable"]) == (0, 0)
    cluster.end("Failed", 1).settle()
    assert cluster.phase == "Completed", "none had to succeed"


def test_a_zero_that_nobody_filled_in_at_creation_is_all():
    cluster = VcJobCluster(vcjob(THREE, minAvailable=0)).start()
    assert (cluster.group["spec"]["minMember"], cluster.status["minAvailable"]) == (3, 3)


def test_a_name_that_is_too_long_is_refused_before_anything_is_made():
    cluster = VcJobCluster(vcjob(task("worker" * 9), metadata={"name": "train" * 10})).settle()
    assert cluster.state["reason"] == "Invalid"
    assert cluster.kinds() == set()


# Commands


def test_commands_are_obeyed_in_the_order_of_their_creation_each_once():
    cluster = begun()
    cluster.command("AbortJob", "first")
    cluster.command("ResumeJob", "second").settle()
    assert cluster.phases == ["Pending", "Running", "Restarting", "Pending"]
    assert cluster.status["retryCount"] == 1
    assert reasons(cluster).count("CommandIssued") == 2
    assert "Command" not in cluster.kinds()


def test_the_same_command_twice_aborts_once():
    cluster = begun()
    cluster.command("AbortJob", "one")
    cluster.command("AbortJob", "two").settle()
    assert (cluster.phase, cluster.status["version"]) == ("Aborted", 1)
    assert "Command" not in cluster.kinds()


def test_a_command_that_outlives_its_effect_has_it_once():
    """The process died between the status and the end of the Command."""
    cluster = begun()
    cluster.command("RestartJob", "again")
    cluster.budget = 1
    cluster.sync()
    assert (cluster.status["retryCount"], "Command" in cluster.kinds()) == (1, True)
    cluster.settle()
    assert (cluster.status["retryCount"], cluster.status["version"], "Command" in cluster.kinds()) == (1, 1, False)


@cases(
    ("an action nobody knows", "FlyJob", {}),
    ("no action", "", {}),
    ("for a job of the name that is gone", "AbortJob", {"uid": "another"}),
    ("an action that does nothing to a running job", "ResumeJob", {}),
)
def test_a_command_without_effect_is_consumed_and_reported(action, target):
    cluster = begun()
    cluster.command(action, "odd", **target).settle()
    assert (cluster.phase, cluster.alive(), "Command" in cluster.kinds()) == ("Running", ALL, False)
    assert "CommandIgnored" in reasons(cluster)


@for_each(
    ("AbortJob", ["Aborting", "Aborted"]),
    ("TerminateJob", ["Terminating", "Terminated"]),
    ("CompleteJob", ["Completing", "Completed"]),
)
def test_a_command_ends_a_job_and_pods_that_ended_stay(action, phases):
    cluster = begun()
    cluster.stubborn = True
    cluster.set("train-worker-1", "Succeeded")
    cluster.command(action).settle()
    assert (cluster.phase, cluster.alive(), cluster.status["terminating"]) == (phases[0], ["train-worker-1"], 2)
    cluster.reap().settle()
    assert cluster.phases[-2:] == phases
    assert (cluster.status["succeeded"], cluster.kinds()) == (1, {"Pod"})


def test_a_job_that_is_aborted_and_resumed_goes_on_where_it_was():
    cluster = begun()
    cluster.set("train-worker-1", "Succeeded")
    cluster.command("AbortJob").settle()
    cluster.command("ResumeJob").settle()
    versions = {name: pod["metadata"]["annotations"]["volcano.sh/job-version"] for name, pod in cluster.pods.items()}
    assert versions == {"train-worker-0": "2", "train-worker-1": "0", "train-worker-2": "2"}
    cluster.run().settle()
    cluster.end().settle()
    assert cluster.phases[2:] == ["Aborting", "Aborted", "Restarting", "Pending", "Running", "Completed"]
    assert cluster.status["succeeded"] == 3


def test_resuming_too_often_fails_the_job():
    cluster = begun(maxRetry=1)
    cluster.command("AbortJob").settle()
    cluster.command("ResumeJob").settle()
    assert (cluster.phase, cluster.state["reason"]) == ("Failed", "MaxRetryReached")


# Suspension


def test_a_job_is_suspended_and_resumed_by_its_spec_as_often_as_one_likes():
    cluster = begun(maxRetry=1)
    for _ in range(3):
        cluster.edit(suspend=True).settle()
        assert (cluster.phase, cluster.state["reason"], cluster.alive()) == ("Aborted", "Suspended", [])
        cluster.edit(suspend=False).start()
        assert (cluster.phase, cluster.alive()) == ("Running", ALL)
    assert "retryCount" not in cluster.status


def test_a_job_that_begins_suspended_makes_nothing_until_it_is_resumed():
    cluster = VcJobCluster(vcjob(THREE, suspend=True)).settle()
    assert (cluster.phase, cluster.kinds()) == ("Aborted", set())
    cluster.edit(suspend=None).settle()
    assert cluster.alive() == ALL


def test_a_job_aborted_by_command_is_not_resumed_by_its_spec():
    cluster = begun()
    cluster.command("AbortJob").settle()
    cluster.edit(suspend=False).settle()
    assert cluster.phase == "Aborted"


def test_a_command_does_not_resume_what_the_spec_suspends():
    cluster = begun()
    cluster.edit(suspend=True).settle()
    cluster.command("ResumeJob").settle()
    assert (cluster.phase, "Command" in cluster.kinds()) == ("Aborted", False)
    assert "CommandIgnored" in reasons(cluster)


# Time


def test_a_job_that_is_at_work_for_too_long_is_terminated():
    cluster = begun(activeDeadlineSeconds=60)
    assert cluster.back == 60
    cluster.wait(59)
    assert cluster.phase == "Running"
    cluster.wait(1)
    assert (cluster.phase, cluster.state["reason"], cluster.alive()) == ("Terminated", "DeadlineExceeded", [])


@for_each((10**12,), (10**18,))
def test_a_limit_beyond_the_end_of_time_is_none(seconds):
    assert begun(activeDeadlineSeconds=seconds).end().settle().phase == "Completed"


def test_the_time_in_the_queue_and_aborted_does_not_count_as_at_work():
    cluster = VcJobCluster(vcjob(THREE, activeDeadlineSeconds=60)).settle()
    cluster.wait(100)
    cluster.run().settle()
    cluster.wait(50)
    cluster.edit(suspend=True).settle()
    cluster.wait(100)
    cluster.edit(suspend=False).start()
    assert (cluster.phase, cluster.back) == ("Running", 310)


@for_each(
    ("Completed", "ttlSecondsAfterFinished"),
    ("Failed", "ttlSecondsAfterFinished"),
    ("Terminated", "ttlSecondsAfterFinished"),
    ("Aborted", "ttlSecondsAfterAborted"),
)
def test_a_job_that_is_over_is_deleted_when_its_time_is_up(phase, field):
    cluster = begun(**{field: 30})
    match phase:
        case "Completed":
            cluster.end()
        case "Failed":
            cluster.end("Failed", 1)
        case "Terminated":
            cluster.command("TerminateJob")
        case _:
            cluster.command("AbortJob")
    cluster.settle()
    assert (cluster.phase, cluster.back) == (phase, 30)
    cluster.wait(29)
    assert cluster.job
    cluster.wait(1)
    assert cluster.job is None


def test_a_job_ends_and_is_deleted_where_its_secret_may_not_be():
    cluster = begun(plugins={"svc": [], "ssh": []}, ttlSecondsAfterFinished=10)
    cluster.refused["train-ssh"] = "secrets is forbidden"
    cluster.end().sync()
    assert (cluster.phase, cluster.kinds()) == ("Completed", {"Pod", "Secret"})
    cluster.settle()
    told = [message for reason, message in cluster.events if reason == "PluginError"]
    assert (cluster.failures, set(told)) == (0, {"Error removing what plugins made: secrets is forbidden"})
    assert (len(told), cluster.status.get("controlledResources")) == (2, None)
    assert cluster.wait(10).job is None


def test_a_ttl_does_not_wait_for_what_the_job_owns():
    cluster = begun(plugins={"ssh": []}, ttlSecondsAfterFinished=0)
    cluster.refused["train-ssh"] = "secrets is forbidden"
    cluster.end().sync()
    cluster.sync()
    assert cluster.job is None


def test_an_aborted_job_ignores_the_ttl_of_finished_jobs():
    cluster = begun(ttlSecondsAfterFinished=0)
    cluster.command("AbortJob").settle()
    cluster.wait(1000)
    assert cluster.phase == "Aborted"


def test_a_job_without_any_time_is_deleted_as_soon_as_it_is_over():
    cluster = begun(ttlSecondsAfterFinished=0)
    cluster.end().settle()
    assert cluster.phases[-1] == "Completed"
    assert cluster.job is None
