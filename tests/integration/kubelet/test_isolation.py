"""Containers with mounts and process ids of their own, and pods on a machine without them."""

import asyncio
import fcntl
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

import pytest

from deploy.local.kubelet.containers import attempt as attempts
from deploy.local.kubelet.containers import isolation as isolations
from deploy.local.kubelet.containers import termination_messages
from deploy.local.kubelet.containers.attempt import ContainerAttempt, NotStartable
from deploy.local.kubelet.containers.container_states import ContainerRunning, Terminated
from deploy.local.kubelet.containers.environment import ConfigProblem
from deploy.local.kubelet.containers.isolation import Bind, Isolation
from tests.integration.kubelet.lab import Lab, code, condition, container, phase, shell
from tests.support.conditions import eventually
from tests.support.tables import cases
from workers.api.kinds import CONFIG_MAP, EVENT

#: In the machine's root, in a folder of it, and in one that is a link or has no such folder.
PLACES = (Path("/penstock-test"), Path("/etc/penstock-test/deep"), Path("/var/run/penstock-test"))


class WithoutRights(Isolation):
    """Isolation by a process that needs a user namespace for its mounts, as a user's does."""

    command = ("setpriv", "--bounding-set=-sys_admin", *Isolation.command)


#: root mounts by its own right, a user in a user namespace.
KINDS: Mapping[str, type[Isolation]] = (
    {"root": Isolation, "user": WithoutRights} if os.geteuid() == 0 else {"user": Isolation}
)


@pytest.fixture(scope="module", params=KINDS)
def isolation(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Isolation]:
    found = KINDS[request.param]("auto", tmp_path_factory.mktemp("isolation"))
    if found.obstacle is not None:
        pytest.skip(found.obstacle)
    yield found
    found.close()


class Started:
    """Starts containers of one pod."""

    def __init__(self, isolation: Isolation, pod: Path) -> None:
        self.isolation = isolation
        self.pod = pod
        self.attempts: list[ContainerAttempt] = []

    async def start(self, *command: str, volumes: tuple[Bind, ...] = (), cwd: str = "") -> ContainerAttempt:
        attempt = ContainerAttempt(self.pod / "main" / str(len(self.attempts)))
        attempt.prepare()
        self.attempts.append(attempt)
        await attempt.start_isolated(self.isolation, command, volumes, env={"PATH": os.environ["PATH"]}, cwd=cwd)
        return attempt

    async def run(self, script: str, *, volumes: tuple[Bind, ...] = (), cwd: str = "") -> tuple[int, str]:
        """The exit code of a shell script, and what it printed."""
        return await ended(await self.start("sh", "-c", f"exec 2>&1; {script}", volumes=volumes, cwd=cwd))


async def ended(attempt: ContainerAttempt) -> tuple[int, str]:
    await asyncio.wait_for(attempt.ended(), 60)
    state = attempt.state()
    assert isinstance(state, Terminated)
    return state.code, (attempt.folder / "out").read_text()


@pytest.fixture
async def pod(isolation: Isolation, tmp_path: Path) -> AsyncIterator[Started]:
    found = Started(isolation, tmp_path / "pods" / "u")
    (found.pod / "v").mkdir(parents=True)
    (found.pod / "v" / "file").write_text("content")
    yield found
    for attempt in found.attempts:
        attempt.signal(signal.SIGKILL)


async def test_volumes_are_at_their_paths_and_the_machine_has_none_of_them(pod: Started) -> None:
    volume = pod.pod / "v"
    volumes = tuple(Bind(volume, place) for place in PLACES)
    volumes += (Bind(volume / "file", Path("/etc/penstock-test.conf"), read_only=True),)
    paths = " ".join(f"{place}/file" for place in PLACES)
    found = await pod.run(f"cat {paths} /etc/penstock-test.conf && echo new >{PLACES[1]}/made", volumes=volumes)
    assert found == (0, "content" * 4)
    assert (volume / "made").read_text() == "new\n"
    assert not any(place.exists() for place in (*PLACES, PLACES[1].parent, Path("/etc/penstock-test.conf")))


async def test_only_the_pod_can_be_written(pod: Started, tmp_path: Path) -> None:
    read_only = Bind(pod.pod / "v", PLACES[0], read_only=True)
    refused = [PLACES[0] / "x", Path("/x"), Path("/etc/x"), Path("/var/tmp/x"), Path.cwd() / "x"]
    script = "".join(f"echo no 2>/dev/null >{path} && echo written {path}; " for path in refused)
    allowed = ["/tmp/penstock-test", f"{tmp_path}/x", f"{pod.pod}/x", "x", "/dev/null"]
    script += "".join(f"echo yes >{path} && echo {path}; " for path in allowed)
    assert await pod.run(script, volumes=(read_only,)) == (0, "".join(f"{path}\n" for path in allowed))
    # Its /tmp is its own: neither the machine nor another container has its files.
    assert not any(path.exists() for path in (*refused, Path("/tmp/penstock-test"), tmp_path / "x"))
    assert (await pod.run("ls /tmp/penstock-test 2>/dev/null"))[1] == ""


async def test_it_is_alone_and_what_it_starts_ends_with_it(pod: Started) -> None:
    numbers = "for one in /proc/[0-9]*; do echo ${one#/proc/}; done"
    # It leaves the session, in which the kubelet would find it.
    left = "setsid flock held sh -c 'touch taken; exec sleep 60'"
    assert await pod.run(f"{numbers}; {left} & until [ -e taken ]; do sleep 0.02; done; exit 4") == (4, "1\n2\n")
    with (pod.attempts[0].work / "held").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)


@cases(
    ("without a handler", "touch up; exec sleep 60", signal.SIGTERM, 143),
    ("with a handler", "trap 'exit 9' TERM; touch up; while :; do sleep 0.05; done", signal.SIGTERM, 9),
    ("killed", "trap '' TERM; touch up; while :; do sleep 0.05; done", signal.SIGKILL, 137),
)
async def test_a_signal_reaches_the_command(script: str, sent: signal.Signals, wanted: int, pod: Started) -> None:
    attempt = await pod.start("sh", "-c", script)
    await eventually((attempt.work / "up").exists)
    attempt.signal(sent)
    assert (await ended(attempt))[0] == wanted


async def test_a_command_enters_it_in_its_working_directory(pod: Started) -> None:
    attempt = await pod.start("sleep", "60", volumes=(Bind(pod.pod / "v", PLACES[0]),), cwd=str(PLACES[0]))
    assert attempt.pid is not None
    words = [*isolations.entering(attempt.pid), "sh", "-c", "pwd; cat file; exit 3"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (3, f"{PLACES[0]}\ncontent")


async def test_what_a_volume_holds_can_be_run_there(pod: Started) -> None:
    (pod.pod / "v" / "tool").write_text("#!/bin/sh\necho ran in $PWD\n")
    (pod.pod / "v" / "tool").chmod(0o755)
    attempt = await pod.start(f"{PLACES[0]}/tool", volumes=(Bind(pod.pod / "v", PLACES[0]),), cwd=str(PLACES[0]))
    assert await ended(attempt) == (0, f"ran in {PLACES[0]}\n")


@cases(
    ("no program", "no-such-thing", None, "", NotStartable, "no-such-thing: no such program"),
    ("no folder", "true", None, "/no/where", NotStartable, "workingDir /no/where: no such directory"),
    ("nothing to mount", "true", ("/no/where", "/x"), "", ConfigProblem, "/no/where at /x: No such file"),
    ("a folder on a file", "true", ("/etc", "/etc/passwd"), "", ConfigProblem, "/etc at /etc/passwd: Not a"),
    ("among devices", "true", ("/etc", "/dev/x"), "", ConfigProblem, "/dev/x: cannot be made in /dev"),
)
async def test_what_cannot_be_started_says_why(
    command: str, bind: tuple[str, str] | None, cwd: str, error: type[Exception], message: str, pod: Started
) -> None:
    volumes = () if bind is None else (Bind(Path(bind[0]), Path(bind[1])),)
    with pytest.raises(error) as raised:
        await pod.start(command, volumes=volumes, cwd=cwd)
    assert str(raised.value).startswith(message)


async def test_a_command_line_that_is_too_long_cannot_be_started(pod: Started) -> None:
    with pytest.raises(NotStartable, match=r"^true: Argument list too long$"):
        await pod.start("true", "x" * 200_000)


async def test_two_starts_of_one_attempt_run_the_command_once(pod: Started) -> None:
    script = "echo >>starts; until [ -e go ]; do sleep 0.02; done; exit 5"
    first = await pod.start("sh", "-c", script)
    second = ContainerAttempt(first.folder)
    await second.start_isolated(pod.isolation, ("sh", "-c", script), (), env={"PATH": os.environ["PATH"]}, cwd="")
    await eventually((first.work / "starts").exists)
    # As another kubelet finds it.
    await eventually(lambda: isinstance(ContainerAttempt(first.folder).state(), ContainerRunning))
    (first.work / "go").touch()
    assert [(await ended(one))[0] for one in (first, second, ContainerAttempt(first.folder))] == [5, 5, 5]
    assert (first.work / "starts").read_text() == "\n"


async def test_a_start_that_is_given_up_is_known_to_run(pod: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = asyncio.Event()

    async def never(_: int) -> None:
        asked.set()
        await asyncio.Event().wait()

    with monkeypatch.context() as patched:
        patched.setattr(attempts, "_readable", never)
        starting = asyncio.create_task(pod.start("sleep", "60"))
        await asked.wait()
        starting.cancel()
        await asyncio.wait((starting,))
    assert starting.cancelled()
    (attempt,) = pod.attempts
    attempt.signal(signal.SIGKILL)
    assert (await ended(attempt))[0] == 137


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a socket in /run")
async def test_sockets_of_the_machine_work_beside_a_mount_that_is_added(pod: Started) -> None:
    place = Path("/run") / f"penstock-{os.getpid()}.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(place))
        try:
            listening.listen()
            connect = f"import socket; socket.socket(socket.AF_UNIX).connect('{place}'); print('connected')"
            script = f'{sys.executable} -c "{connect}"; cat {PLACES[2]}/file; touch /run/new 2>/dev/null || echo no'
            outcome = await pod.run(script, volumes=(Bind(pod.pod / "v", PLACES[2]),))
            assert outcome == (0, "connected\ncontentno\n")
        finally:
            place.unlink()


async def test_a_starter_that_dies_is_replaced(pod: Started) -> None:
    attempt = await pod.start("sh", "-c", "until [ -e go ]; do sleep 0.02; done")
    process = pod.isolation._process
    assert process is not None
    process.kill()
    process.wait()
    assert (await pod.run("exit 7"))[0] == 7
    (attempt.work / "go").touch()
    assert (await ended(attempt))[0] == 0


@pytest.mark.usefixtures("_allowed")
async def test_a_pod_of_a_cluster_has_its_mounts(bench: Lab) -> None:
    bench.start(isolation="required")
    (bench.folder / "mine").mkdir()
    await bench.cluster.create(
        CONFIG_MAP, {"metadata": {"namespace": "default", "name": "mounted"}, "data": {"go.sh": "echo from the map"}}
    )
    mounts = [
        {"name": "shared", "mountPath": str(PLACES[0])},
        {"name": "map", "mountPath": str(PLACES[1])},
        {"name": "mine", "mountPath": "/mine"},
        {"name": "mine", "mountPath": "relative", "readOnly": True},
    ]
    script = (
        f"cat {PLACES[0]}/made; . {PLACES[1]}/go.sh; cp {PLACES[0]}/made $PENSTOCK_VOLUME_MINE/out; cat relative/out"
    )
    # The working directory is a volume; the probe runs in it.
    script = f"cd $HOME; {script}; cd -; touch asked; until [ -e /mine/go ]; do sleep 0.02; done; echo $$ >/mine/number"
    probe = {"exec": {"command": ["test", "-e", "asked"]}, "periodSeconds": 1}
    await bench.create(
        "mounted",
        shell(script, volumeMounts=mounts, workingDir=str(PLACES[0]), readinessProbe=probe),
        initContainers=[shell(f"echo shared >{PLACES[0]}/made", "init", volumeMounts=mounts[:1])],
        volumes=[
            {"name": "shared", "emptyDir": {}},
            {"name": "map", "configMap": {"name": "mounted"}},
            {"name": "mine", "hostPath": {"path": str(bench.folder / "mine")}},
        ],
    )
    await bench.wait("mounted", lambda pod: condition(pod, "Ready").get("status") == "True")
    # The next kubelet finds it.
    bench.stop(signal.SIGKILL)
    (bench.folder / "mine" / "go").touch()
    bench.start(isolation="required")
    pod = await bench.ended("mounted")
    assert (phase(pod), code(pod)) == ("Succeeded", 0)
    assert bench.log(pod) == [f"stdout {line}" for line in ("shared", "from the map", "shared", str(PLACES[0]))]
    # Its shim is the first process of its own; a probe may have come before it.
    assert 1 < bench.number("mine/number") < 20
    await bench.delete("mounted", kind=CONFIG_MAP)


@pytest.mark.usefixtures("_allowed")
async def test_hooks_and_message_files_are_those_of_an_isolated_container(bench: Lab) -> None:
    bench.start(isolation="required")
    hook = {"exec": {"command": ["sh", "-c", "echo from the hook > /tmp/told"]}}
    script = f"until [ -s /tmp/told ]; do sleep 0.02; done; cat /tmp/told > {PLACES[0]}; exit 3"
    main = shell(script, lifecycle={"postStart": hook}, terminationMessagePath=str(PLACES[0]))
    await bench.create("hooked", main)
    pod = await bench.ended("hooked")
    assert (code(pod), container(pod)["state"]["terminated"].get("message")) == (3, "from the hook\n")


@pytest.mark.usefixtures("_allowed")
async def test_messages_at_the_default_path_are_each_containers_own(bench: Lab) -> None:
    if not termination_messages.has_default():
        pytest.skip(f"only root can make {termination_messages.DEFAULT}")
    bench.start(isolation="required")
    names = ("one", "two")
    scripts = [shell(f"echo {name} >> /dev/termination-log; exit 1", name) for name in names]
    await bench.create("talking", *scripts)
    pod = await bench.ended("talking")
    assert [container(pod, name)["state"]["terminated"].get("message") for name in names] == ["one\n", "two\n"]


async def test_a_mount_that_is_not_made_is_named_in_an_event(bench: Lab) -> None:
    bench.start()
    mounts = [{"name": "shared", "mountPath": str(PLACES[0])}]
    script = "ls -d $PENSTOCK_MOUNT_PENSTOCK_TEST >/dev/null && ls -d /penstock-test 2>/dev/null || echo not there"
    await bench.create("bare", shell(script, volumeMounts=mounts), volumes=[{"name": "shared", "emptyDir": {}}])
    assert bench.log(await bench.ended("bare")) == ["stdout not there"]

    async def announced() -> list[str]:
        events, _ = await bench.cluster.list(EVENT, "default")
        of_it = [one for one in events if one["involvedObject"]["name"] == "bare"]
        return [one["message"] for one in of_it if one["reason"] == "MountNotMade"]

    await eventually(announced, 60.0)
    assert await announced() == [
        "container main: not mounted, because containers are not isolated (PENSTOCK_ISOLATION=none): "
        "/penstock-test (in $PENSTOCK_MOUNT_PENSTOCK_TEST)"
    ]
