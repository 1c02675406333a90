"""Pods as their user observes them: exit codes, phases, restarts, deadlines, deletion, logs."""

import json
import signal
from contextlib import suppress

import pytest

from tests.integration.kubelet.conftest import Server
from tests.integration.kubelet.lab import Lab, code, condition, container, phase, shell, until, waiting
from tests.support.conditions import eventually
from tests.support.processes import alive
from tests.support.tables import cases
from workers.api import quantities
from workers.api.kinds import (
    CONFIG_MAP,
    EVENT,
    NODE,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_METRICS,
    SECRET,
    Object,
    Ref,
    ref_of,
)
from workers.errors import NotFound

#: Seconds until what a pod consumes has been measured twice, or is swept up.
LONG = 60.0


@cases(
    ("success", "exit 0", 0, "Succeeded", "Completed"),
    ("failure", "exit 3", 3, "Failed", "Error"),
    ("killed", "kill -KILL $$", 137, "Failed", "Error"),
    ("crashed", "kill -SEGV $$", 139, "Failed", "Error"),
)
async def test_the_exit_code_decides_the_phase_after(
    script: str, exit_code: int, wanted: str, reason: str, lab: Lab
) -> None:
    await lab.create("one", shell(script))
    pod = await lab.ended("one")
    assert phase(pod) == wanted
    assert code(pod) == exit_code
    assert container(pod)["state"]["terminated"]["reason"] == reason
    assert pod["spec"]["nodeName"] == "local"
    assert condition(pod, "PodScheduled")["status"] == "True"


async def test_init_containers_run_one_by_one_before_the_others_side_by_side(lab: Lab) -> None:
    log = lab.folder / "order"
    meet = f"touch {lab.folder}/$0; until [ -e {lab.folder}/$1 ]; do sleep 0.02; done; echo main >> {log}"
    pod = await lab.create(
        "many",
        {"name": "a", "image": "x", "command": ["/bin/sh", "-c", meet, "a", "b"]},
        {"name": "b", "image": "x", "command": ["/bin/sh", "-c", meet, "b", "a"]},
        initContainers=[shell(f"sleep 0.1; echo 1 >> {log}", "i1"), shell(f"echo 2 >> {log}", "i2")],
    )
    pod = await lab.ended("many")
    assert phase(pod) == "Succeeded"
    assert log.read_text().split() == ["1", "2", "main", "main"]


async def test_a_failed_init_container_fails_the_pod_and_nothing_else_starts(lab: Lab) -> None:
    await lab.create("bad", shell("exit 0"), initContainers=[shell("exit 7", "init")])
    pod = await lab.ended("bad")
    assert (phase(pod), code(pod, "init"), code(pod)) == ("Failed", 7, None)
    assert container(pod)["state"]["waiting"]["reason"] == "PodInitializing"
    assert condition(pod, "Initialized")["status"] == "False"


async def test_the_environment_is_what_the_pod_declares(lab: Lab) -> None:
    await lab.cluster.create(
        CONFIG_MAP, {"metadata": {"namespace": "default", "name": "conf"}, "data": {"COLOR": "red", "file.txt": "text"}}
    )
    await lab.cluster.create(
        SECRET, {"metadata": {"namespace": "default", "name": "pass"}, "stringData": {"word": "hush"}}
    )
    script = 'import json, os; print(json.dumps(dict(os.environ))); print(open("conf/file.txt").read())'
    main = {
        "name": "main",
        "image": "x",
        "command": ["python", "-c", script],
        "envFrom": [{"configMapRef": {"name": "conf"}, "prefix": "C_"}],
        "env": [
            {"name": "A", "value": "a"},
            {"name": "B", "value": "$(A)-$(C_COLOR)-$(NONE)-$$(A)"},
            {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "WORD", "valueFrom": {"secretKeyRef": {"name": "pass", "key": "word"}}},
        ],
        "volumeMounts": [{"name": "conf", "mountPath": "conf"}],
    }
    await lab.create("env", main, volumes=[{"name": "conf", "configMap": {"name": "conf"}}])
    pod = await lab.ended("env")
    lines = lab.log(pod)
    assert lines[1] == "stdout text"
    env = json.loads(lines[0].removeprefix("stdout "))
    declared = {"A": "a", "B": "a-red-$(NONE)-$(A)", "C_COLOR": "red", "POD": "env", "WORD": "hush", "HOSTNAME": "env"}
    assert env.items() >= declared.items()
    shells = {"PWD", "OLDPWD", "SHLVL", "_", "LC_CTYPE"}
    ours = {"PENSTOCK_VOLUME_CONF", "PENSTOCK_MOUNT_CONF"}
    account = {"PENSTOCK_VOLUME_KUBE_API_ACCESS", "PENSTOCK_MOUNT_VAR_RUN_SECRETS_KUBERNETES_IO_SERVICEACCOUNT"}
    assert set(env) - shells == {*declared, "C_file.txt", "PATH", "HOME", "TMPDIR", "LANG", *ours, *account}
    for kind, name in ((CONFIG_MAP, "conf"), (SECRET, "pass")):
        await lab.delete(name, kind=kind)


async def test_output_is_logged_by_stream_and_lines_and_removed_with_the_pod(lab: Lab) -> None:
    pod = await lab.create("talk", shell("echo one; echo two >&2; printf 'no end'"))
    await lab.ended("talk")
    assert sorted(lab.log(pod)) == ["stderr two", "stdout no end", "stdout one"]
    folder = lab.logs / f"default_talk_{pod['metadata']['uid']}"
    await lab.delete("talk")
    await lab.gone("talk")
    await until(lambda: not folder.exists(), "the log folder is removed")


async def test_output_of_a_running_container_can_be_read(lab: Lab) -> None:
    pod = await lab.create("live", shell("echo now; exec sleep 60"))
    await lab.wait("live", lambda pod: condition(pod, "Ready").get("status") == "True")
    await until(lambda: lab.log(pod) == ["stdout now"], "the line is logged")


async def test_a_container_restarts_in_place_until_it_succeeds(lab: Lab) -> None:
    script = f"n=$(cat {lab.folder}/n 2>/dev/null || echo 0); echo $((n+1)) > {lab.folder}/n; echo try $n; [ $n = 2 ]"
    await lab.create("again", shell(script), restartPolicy="OnFailure")
    pod = await lab.ended("again")
    assert phase(pod) == "Succeeded"
    assert container(pod)["restartCount"] == 2
    assert container(pod)["lastState"]["terminated"]["exitCode"] == 1
    assert lab.log(pod, attempt=1) == ["stdout try 1"]
    assert lab.log(pod, attempt=2) == ["stdout try 2"]


async def test_a_container_that_keeps_crashing_is_shown_as_such(lab: Lab) -> None:
    await lab.create("crash", shell("exit 1"), restartPolicy="Always")
    pod = await lab.wait("crash", lambda pod: waiting(pod).get("reason") == "CrashLoopBackOff")
    assert phase(pod) == "Running"
    assert container(pod)["lastState"]["terminated"]["exitCode"] == 1


async def test_a_pod_over_its_deadline_is_stopped_and_fails(lab: Lab) -> None:
    # Not from the start: its time would begin before its process does, and might be over by then.
    await lab.running("late")
    await lab.cluster.patch(Ref(POD, "default", "late"), {"spec": {"activeDeadlineSeconds": 1}})
    pod = await lab.ended("late")
    assert (phase(pod), pod["status"]["reason"], code(pod)) == ("Failed", "DeadlineExceeded", 143)
    assert not alive(lab.number("pid"))


async def test_deletion_asks_first_and_reaches_the_whole_group(lab: Lab) -> None:
    script = f"trap 'echo asked > {lab.folder}/asked; exit 0' TERM; sleep 60 & echo $! > {lab.folder}/child; wait"
    await lab.create("polite", shell(script))
    await until(lambda: lab.number("child"), "the container runs")
    await lab.delete("polite")
    await lab.gone("polite")
    assert (lab.folder / "asked").exists()
    assert not alive(lab.number("child"))


async def test_a_container_that_ignores_term_is_killed_when_its_grace_is_over(lab: Lab) -> None:
    script = f"trap '' TERM; echo $$ > {lab.folder}/pid; while :; do sleep 0.05; done"
    await lab.create("deaf", shell(script), terminationGracePeriodSeconds=1)
    await until(lambda: lab.number("pid"), "the container runs")
    await lab.delete("deaf")
    await lab.gone("deaf")
    assert not alive(lab.number("pid"))


async def test_a_force_deleted_pod_leaves_no_process(lab: Lab) -> None:
    await lab.running("forced")
    await lab.delete("forced", grace=0)
    await lab.gone("forced")
    await until(lambda: not alive(lab.number("pid")), "the process is gone")


async def test_more_pods_than_places_wait_and_say_why_and_get_their_turn(bench: Lab) -> None:
    bench.start(pods=1)
    await bench.create("first", shell(f"until [ -e {bench.folder}/go ]; do sleep 0.02; done"))
    await bench.wait("first", lambda pod: phase(pod) == "Running")
    await bench.create("second", shell("exit 0"))
    pod = await bench.wait("second", lambda pod: condition(pod, "PodScheduled").get("status") == "False")
    assert phase(pod) == "Pending"
    assert condition(pod, "PodScheduled")["reason"] == "Unschedulable"
    assert "this node runs 1 at once (`penstock up --pods 1`" in condition(pod, "PodScheduled")["message"]
    (bench.folder / "go").touch()
    pod = await bench.ended("second")
    assert phase(pod) == "Succeeded"
    assert condition(pod, "PodScheduled")["status"] == "True"


async def test_a_program_that_is_not_there_fails_the_container_at_once(lab: Lab) -> None:
    await lab.create("typo", {"name": "main", "image": "x", "command": ["no-such-program"]})
    pod = await lab.ended("typo")
    ended = container(pod)["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (128, "StartError")
    assert "no-such-program: no such program" in ended["message"]
    events, _ = await lab.cluster.list(EVENT, "default")
    while not any(one["reason"] == "Failed" and "no-such-program" in one["message"] for one in events):
        events, _ = await lab.cluster.list(EVENT, "default")


async def test_a_missing_config_map_is_named_and_waited_for(lab: Lab) -> None:
    source = {"configMapKeyRef": {"name": "later", "key": "k"}}
    main = shell("echo $K", env=[{"name": "K", "valueFrom": source}])
    await lab.create("patient", main)
    shown = waiting(await lab.wait("patient", waiting))
    assert shown == {"reason": "CreateContainerConfigError", "message": 'env K: ConfigMap "later" not found'}
    body = {"metadata": {"namespace": "default", "name": "later"}, "data": {"k": "value"}}
    await lab.cluster.create(CONFIG_MAP, body)
    pod = await lab.ended("patient")
    assert lab.log(pod) == ["stdout value"]
    await lab.delete("later", kind=CONFIG_MAP)


async def test_a_claim_that_is_being_deleted_gets_no_new_pods(lab: Lab) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
    claim = {**PERSISTENT_VOLUME_CLAIM.type_meta, "metadata": {"namespace": "default", "name": "data"}, "spec": spec}
    ref = ref_of(PERSISTENT_VOLUME_CLAIM, await lab.cluster.create(PERSISTENT_VOLUME_CLAIM, claim))
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    await lab.running("first", volumes=volumes)
    await lab.cluster.delete(ref)
    await lab.create("second", shell("true"), volumes=volumes)
    pod = await lab.wait("second", lambda pod: condition(pod, "PodScheduled").get("status") == "False")
    assert 'persistentvolumeclaim "data" is being deleted' in condition(pod, "PodScheduled")["message"]
    assert "nodeName" not in pod["spec"]
    await lab.delete("first", grace=0)
    with suppress(NotFound):
        # Where no controller lets it go.
        await lab.cluster.patch(ref, {"metadata": {"finalizers": None}})
    await lab.gone("data", PERSISTENT_VOLUME_CLAIM)
    await lab.cluster.create(PERSISTENT_VOLUME_CLAIM, claim)
    assert phase(await lab.ended("second")) == "Succeeded"
    await lab.cluster.delete(ref)


async def test_probes_decide_over_readiness_and_restarts(lab: Lab) -> None:
    flag, sick = lab.folder / "flag", lab.folder / "sick"
    every = {"periodSeconds": 1, "failureThreshold": 1}
    main = shell(
        "exec sleep 60",
        readinessProbe={"exec": {"command": ["test", "-e", str(flag)]}, **every},
        livenessProbe={"exec": {"command": ["test", "!", "-e", str(sick)]}, **every},
    )
    await lab.create("probed", main, restartPolicy="Always", terminationGracePeriodSeconds=1)
    pod = await lab.wait("probed", lambda pod: phase(pod) == "Running")
    assert condition(pod, "Ready")["status"] == "False"
    flag.touch()
    await lab.wait("probed", lambda pod: condition(pod, "Ready").get("status") == "True")
    sick.touch()
    pod = await lab.wait("probed", lambda pod: container(pod)["restartCount"] > 0)
    sick.unlink()
    assert "liveness probe failed" in container(pod)["lastState"]["terminated"]["message"]


async def test_a_sick_container_is_killed_when_the_grace_of_its_probe_is_over(lab: Lab, server: Server) -> None:
    if server.name == "real":
        pytest.skip("the grace of a probe came with Kubernetes 1.21")
    deaf = lab.folder / "deaf"
    sick = {"exec": {"command": ["test", "!", "-e", str(deaf)]}}
    probe = {**sick, "failureThreshold": 1, "periodSeconds": 1, "terminationGracePeriodSeconds": 1}
    main = shell(f"trap '' TERM; touch {deaf}; while :; do sleep 0.05; done", livenessProbe=probe)
    await lab.create("sick", main, terminationGracePeriodSeconds=1000)
    pod = await lab.ended("sick")
    assert code(pod) == 137
    assert "liveness probe failed" in container(pod)["state"]["terminated"]["message"]


async def test_a_container_that_is_asked_to_end_is_not_called_sick(lab: Lab) -> None:
    up, asked = lab.folder / "up", lab.folder / "asked"
    script = f"trap 'touch {asked}; sleep 2; echo drained; exit 0' TERM; touch {up}; while :; do sleep 0.05; done"
    probe = {"exec": {"command": ["test", "!", "-e", str(asked)]}, "periodSeconds": 1, "failureThreshold": 1}
    await lab.create("drains", shell(script, livenessProbe=probe))
    await until(up.exists, "it can be asked")
    await lab.cluster.patch(Ref(POD, "default", "drains"), {"spec": {"activeDeadlineSeconds": 1}})
    pod = await lab.ended("drains")
    ended = container(pod)["state"]["terminated"]
    assert (ended["exitCode"], ended.get("message")) == (0, None)
    assert lab.log(pod) == ["stdout drained"]


async def test_a_hook_runs_beside_a_container_that_has_started(lab: Lab) -> None:
    hooked = lab.folder / "hooked"
    hook = {"exec": {"command": ["sh", "-c", f"touch {hooked}; touch $HOME/by-hook"]}}
    main = shell("until [ -e by-hook ]; do sleep 0.02; done", lifecycle={"postStart": hook})
    await lab.create("hooked", main)
    assert phase(await lab.ended("hooked")) == "Succeeded"
    assert hooked.exists()


async def test_a_container_is_not_ready_before_its_hook_has_succeeded(lab: Lab) -> None:
    go, asked = lab.folder / "go", lab.folder / "asked"
    script = f"touch {asked}; until [ -e {go} ]; do sleep 0.02; done"
    hook = {"exec": {"command": ["sh", "-c", script]}}
    await lab.create("early", shell("exec sleep 60", lifecycle={"postStart": hook}))
    await until(asked.exists, "the hook runs")
    assert condition(await lab.get("early"), "Ready").get("status") != "True"
    go.touch()
    await lab.wait("early", lambda pod: condition(pod, "Ready").get("status") == "True")


async def test_a_hook_that_fails_ends_its_container(lab: Lab) -> None:
    hook = {"exec": {"command": ["sh", "-c", "echo no luck; exit 3"]}}
    await lab.create("unlucky", shell("exec sleep 60", lifecycle={"postStart": hook}))
    pod = await lab.ended("unlucky")
    assert (phase(pod), code(pod)) == ("Failed", 143)
    message = "postStart hook failed: exit code 3: no luck"
    assert container(pod)["state"]["terminated"]["message"] == message

    async def announced() -> bool:
        events, _ = await lab.cluster.list(EVENT, "default")
        return any(one["reason"] == "FailedPostStartHook" and message in one["message"] for one in events)

    await eventually(announced)


async def test_a_container_says_why_it_failed_also_to_a_kubelet_that_was_away(lab: Lab) -> None:
    script = f"until [ -e {lab.folder}/go ]; do sleep 0.02; done; echo no disk; echo left > why; exit 3"
    await lab.create(
        "talkative",
        shell(script, terminationMessagePolicy="FallbackToLogsOnError"),
        shell(script, "other", terminationMessagePath="why"),
    )
    await lab.wait("talkative", lambda pod: phase(pod) == "Running")
    lab.stop(signal.SIGKILL)
    (lab.folder / "go").touch()
    lab.start()
    pod = await lab.ended("talkative")
    messages = [container(pod, name)["state"]["terminated"].get("message") for name in ("main", "other")]
    assert messages == ["no disk\n", "left\n"]


async def test_a_sidecar_runs_beside_the_others_and_ends_with_them(lab: Lab, server: object) -> None:
    side = shell(f"echo $$ > {lab.folder}/side; exec sleep 60", "side", restartPolicy="Always")
    try:
        # A sidecar without a startup probe has started once its process runs: it need not have written anything yet.
        main = shell(f"until test -s {lab.folder}/side; do sleep 0.01; done")
        await lab.create("accompanied", main, initContainers=[side])
        known = (await lab.get("accompanied"))["spec"]["initContainers"][0]
    except Exception:
        pytest.skip("this API server does not know sidecars")
    if "restartPolicy" not in known:
        pytest.skip("this API server does not know sidecars")
    pod = await lab.ended("accompanied")
    assert phase(pod) == "Succeeded"
    assert not alive(lab.number("side"))


async def test_a_sidecar_is_asked_to_end_when_the_others_have_ended(lab: Lab, server: Server) -> None:
    if server.name == "real":
        pytest.skip("this API server does not know sidecars")
    order, go = lab.folder / "order", lab.folder / "go"
    idle = "while :; do sleep 0.02; done"
    side = shell(f"trap 'echo side >> {order}; exit 0' TERM; {idle}", "side", restartPolicy="Always")
    slow = f"echo asked >> {order}; until [ -e {go} ]; do sleep 0.02; done; echo main >> {order}; exit 0"
    await lab.running("slow", f"trap '{slow}' TERM; {idle}", initContainers=[side])
    await lab.delete("slow")
    await until(order.exists, "the container is asked to end")
    go.touch()
    await lab.gone("slow")
    assert order.read_text().split() == ["asked", "main", "side"]


async def test_the_hook_of_a_sidecar_runs_while_the_others_end(lab: Lab, server: Server) -> None:
    if server.name == "real":
        pytest.skip("this API server does not know sidecars")
    order, idle = lab.folder / "order", "while :; do sleep 0.02; done"
    hook = {"preStop": {"exec": {"command": ["/bin/sh", "-c", f"echo hook >> {order}"]}}}
    side = shell(f"trap 'echo side >> {order}; exit 0' TERM; {idle}", "side", restartPolicy="Always", lifecycle=hook)
    slow = f"until [ -e {order} ]; do sleep 0.02; done; echo main >> {order}; exit 0"
    await lab.running("slow", f"trap '{slow}' TERM; {idle}", initContainers=[side])
    await lab.delete("slow")
    await lab.gone("slow")
    assert order.read_text().split() == ["hook", "main", "side"]


async def test_the_node_is_registered_and_ready(bench: Lab) -> None:
    bench.start("--node", "desk", pods=3)

    async def shown() -> dict[str, object]:
        nodes, _ = await bench.cluster.list(NODE)
        return next((one for one in nodes if one["metadata"]["name"] == "desk"), {})

    node = await shown()
    while not (node.get("status") or {}).get("conditions"):  # type: ignore[attr-defined]
        node = await shown()
    status = node["status"]
    assert isinstance(status, dict)
    assert status["capacity"]["pods"] == "3"
    assert {one["type"]: one["status"] for one in status["conditions"]}["Ready"] == "True"
    assert bench.stop() == 0
    node = await bench.cluster.get(Ref(NODE, "", "desk"))
    assert {one["type"]: one["status"] for one in node["status"]["conditions"]}["Ready"] == "False"


async def test_what_pods_consume_is_told_and_goes_with_them(lab: Lab, server: Server) -> None:
    if server.name == "real":
        with pytest.raises(NotFound):
            await lab.cluster.list(POD_METRICS, "default")
        return
    await lab.create("busy", shell("while :; do :; done"), metadata={"labels": {"app": "busy"}})
    ref = Ref(POD_METRICS, "default", "busy")
    await lab.wait("busy", lambda pod: phase(pod) == "Running")

    async def measured() -> list[Object]:
        found, _ = await lab.cluster.list(POD_METRICS, "default", label_selector="app=busy")
        return found

    await eventually(measured, LONG)
    (body,) = await measured()
    (main,) = body["containers"]
    assert main["name"] == "main"
    assert quantities.parse(main["usage"]["cpu"]) > 0
    assert quantities.parse(main["usage"]["memory"]) > 0
    await lab.delete("busy", grace=0)

    async def gone() -> bool:
        return not await measured()

    await eventually(gone, LONG)
    with pytest.raises(NotFound):
        await lab.cluster.get(ref)
