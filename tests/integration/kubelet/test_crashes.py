"""The kubelet is killed, stopped or starved in the middle of work: no pod is lost, none runs twice, none is left."""

import asyncio
import os
import signal

from tests.integration.kubelet.lab import Lab, code, condition, phase, shell, until
from tests.support.ports import free_port
from tests.support.processes import alive
from workers.api.kinds import CONFIG_MAP, Ref


def once(lab: Lab, name: str, exit_code: int) -> str:
    """A script that notes that it was started, waits for a file, and ends with the code."""
    flag = lab.folder / f"{name}.go"
    return (
        f"echo $$ >> {lab.folder}/{name}.starts; until [ -e {flag} ]; do sleep 0.02; done; echo bye; exit {exit_code}"
    )


def starts(lab: Lab, name: str) -> list[int]:
    """Process ids of the starts of a script made by `once`."""
    path = lab.folder / f"{name}.starts"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


async def test_pods_outlive_a_killed_kubelet_with_their_true_exit_codes_and_run_once(lab: Lab) -> None:
    codes = {"a": 0, "b": 5, "c": 0, "d": 137}
    for name, exit_code in codes.items():
        await lab.create(name, shell(once(lab, name, exit_code)))
    await until(lambda: all(starts(lab, name) for name in codes), "all run")
    lab.stop(signal.SIGKILL)
    for name in ("a", "b"):
        # these two end while there is no kubelet
        (lab.folder / f"{name}.go").touch()
    await until(lambda: not any(alive(starts(lab, name)[0]) for name in ("a", "b")), "two have ended")
    assert alive(starts(lab, "c")[0])
    lab.start()
    for name in ("c", "d"):
        (lab.folder / f"{name}.go").touch()
    for name, exit_code in codes.items():
        pod = await lab.ended(name)
        assert (name, code(pod), phase(pod)) == (name, exit_code, "Failed" if exit_code else "Succeeded")
        assert len(starts(lab, name)) == 1
        assert lab.log(pod) == ["stdout bye"]


async def test_killing_the_kubelet_again_and_again_runs_every_pod_exactly_once(bench: Lab) -> None:
    names = [f"p{number}" for number in range(12)]
    bench.start(pods=4)
    for number, name in enumerate(names):
        script = f"echo $$ >> {bench.folder}/{name}.starts; sleep 0.2; exit {number % 3}"
        await bench.create(name, shell(script))
    for seen in (1, 4, 7):
        await until(lambda seen=seen: sum(bool(starts(bench, name)) for name in names) >= seen, "some have started")
        bench.stop(signal.SIGKILL)
        bench.start(pods=4)
    for number, name in enumerate(names):
        pod = await bench.ended(name)
        assert (name, code(pod)) == (name, number % 3)
        assert len(starts(bench, name)) == 1, name


async def test_a_container_killed_while_there_was_no_kubelet_counts_as_killed(lab: Lab) -> None:
    await lab.create("lost", shell(once(lab, "lost", 0)))
    await until(lambda: starts(lab, "lost"), "it runs")
    lab.stop(signal.SIGKILL)
    os.killpg(os.getpgid(starts(lab, "lost")[0]), signal.SIGKILL)
    lab.start()
    pod = await lab.ended("lost")
    assert (code(pod), phase(pod)) == (137, "Failed")


async def test_what_a_container_leaves_behind_while_there_is_no_kubelet_is_ended_by_the_next(lab: Lab) -> None:
    await lab.create("messy", shell(f"sleep 600 & echo $! > {lab.folder}/left; " + once(lab, "messy", 3)))
    await until(lambda: starts(lab, "messy"), "it runs")
    lab.stop(signal.SIGKILL)
    (lab.folder / "messy.go").touch()
    await until(lambda: not alive(starts(lab, "messy")[0]), "it has ended")
    left = int((lab.folder / "left").read_text())
    assert alive(left)
    lab.start()
    assert code(await lab.ended("messy")) == 3
    assert not alive(left)


async def test_a_pod_deleted_while_there_was_no_kubelet_is_ended_by_the_next(lab: Lab) -> None:
    await lab.create("forced", shell(once(lab, "forced", 0)))
    await lab.create("polite", shell(once(lab, "polite", 0)))
    await until(lambda: starts(lab, "forced") and starts(lab, "polite"), "they run")
    lab.stop(signal.SIGKILL)
    await lab.delete("forced", grace=0)
    await lab.delete("polite")
    lab.start()
    await lab.gone("polite")
    await until(lambda: not alive(starts(lab, "forced")[0]), "its process is ended")
    assert not alive(starts(lab, "polite")[0])


async def test_a_pod_whose_environment_is_gone_is_still_probed_later_and_asked_to_end(lab: Lab) -> None:
    ref = Ref(CONFIG_MAP, "default", "words")
    words = {"metadata": {"namespace": "default", "name": "words"}, "data": {"WORD": "x"}}
    await lab.cluster.create(CONFIG_MAP, {**CONFIG_MAP.type_meta, **words})
    asked = lab.folder / "asked"
    script = f"echo $$ > {lab.folder}/pid; trap 'touch {asked}; exit 0' TERM; while :; do sleep 0.05; done"
    main = shell(
        script,
        envFrom=[{"configMapRef": {"name": "words"}}],
        readinessProbe={"exec": {"command": ["test", "-e", f"{lab.folder}/flag"]}, "periodSeconds": 1},
        lifecycle={"preStop": {"exec": {"command": ["true"]}}},
    )
    await lab.create("probed", main, terminationGracePeriodSeconds=1000)
    port = free_port()
    await lab.create(
        "reached",
        shell(
            once(lab, "reached", 0),
            envFrom=main["envFrom"],
            readinessProbe={"tcpSocket": {"host": "127.0.0.1", "port": port}, "periodSeconds": 1},
        ),
    )
    await until(lambda: lab.number("pid") and starts(lab, "reached"), "the containers run")
    lab.stop(signal.SIGKILL)
    await lab.cluster.delete(ref)
    lab.start()
    log = lab.folder / "kubelet.log"
    await until(lambda: "could not be asked" in log.read_text(), "the new kubelet asks in vain")
    # A question over the network needs no environment.
    async with await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", port):
        await lab.wait("reached", lambda pod: condition(pod, "Ready").get("status") == "True")
    (lab.folder / "flag").touch()
    await lab.cluster.create(CONFIG_MAP, {**CONFIG_MAP.type_meta, **words})
    await lab.wait("probed", lambda pod: condition(pod, "Ready").get("status") == "True")
    lab.stop(signal.SIGKILL)
    await lab.cluster.delete(ref)
    lab.start()
    await lab.delete("probed")
    await until(asked.exists, "the container is asked to end")
    await lab.gone("probed")


async def test_a_kubelet_that_stops_ends_its_pods_and_says_that_they_are_not_to_blame(lab: Lab) -> None:
    await lab.create("bystander", shell(once(lab, "bystander", 0)))
    await until(lambda: starts(lab, "bystander"), "it runs")
    assert lab.stop() == 0
    assert not alive(starts(lab, "bystander")[0])
    pod = await lab.get("bystander")
    assert (phase(pod), pod["status"]["reason"]) == ("Failed", "Terminated")
    assert condition(pod, "DisruptionTarget")["status"] == "True"
    assert list((lab.folder / "root" / "pods").iterdir()) == []


async def test_pods_of_a_kubelet_that_never_comes_back_are_ended_by_the_guard(bench: Lab) -> None:
    bench.start("--orphans", "0.3")
    await bench.create("orphan", shell("trap '' TERM; " + once(bench, "orphan", 0)))
    await until(lambda: starts(bench, "orphan"), "it runs")
    bench.stop(signal.SIGKILL)
    await until(lambda: not alive(starts(bench, "orphan")[0]), "the guard ends it")


async def test_a_second_kubelet_in_the_same_folder_is_refused(lab: Lab) -> None:
    await until(lambda: (lab.folder / "root" / "lock").exists(), "the first has started")
    first, lab.process = lab.process, None
    lab.start()
    second = lab.process
    assert second is not None
    assert second.wait(30) == 1
    lab.process = first
    assert "another kubelet works in this folder" in (lab.folder / "kubelet.log").read_text()


async def test_a_kubelet_that_was_frozen_catches_up(lab: Lab) -> None:
    await lab.create("frozen", shell(once(lab, "frozen", 4)))
    await until(lambda: starts(lab, "frozen"), "it runs")
    assert lab.process is not None
    lab.process.send_signal(signal.SIGSTOP)
    (lab.folder / "frozen.go").touch()
    await until(lambda: not alive(starts(lab, "frozen")[0]), "it has ended")
    lab.process.send_signal(signal.SIGCONT)
    assert code(await lab.ended("frozen")) == 4
