"""One pod from its arrival to its end: observes its containers, lets `lifecycle` decide, and acts.

The task of a pod sleeps until something happens: its object changed, a process ended, a probe changed its mind, or an
instant the last decision named has come.
"""

import asyncio
import contextlib
import json
import logging
import math
import shutil
import signal
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from deploy.local import log_parts
from deploy.local.kubelet.containers import probes, restore, termination_messages
from deploy.local.kubelet.containers.attempt import ContainerAttempt, NotStartable
from deploy.local.kubelet.containers.container_states import (
    START_ERROR,
    Container,
    ContainerEnding,
    ContainerRunning,
    ContainerWaiting,
    Terminated,
)
from deploy.local.kubelet.containers.environment import ConfigProblem
from deploy.local.kubelet.containers.isolation import NotIsolated, entering
from deploy.local.kubelet.containers.log_files import Log
from deploy.local.kubelet.pods import lifecycle, recipe, renewal, status
from deploy.local.kubelet.pods.host import Host
from deploy.local.kubelet.pods.lifecycle import PodDecision
from deploy.local.kubelet.pods.recipe import NoCommand, Recipe
from deploy.local.kubelet.volumes import folders
from workers.api import loopback_addresses
from workers.api.kinds import POD, Object, Ref, ref_of
from workers.errors import ClusterError, PenstockError

log = logging.getLogger(__name__)

#: Seconds before a container that could not be made is tried again: the missing object or program may exist by then.
RETRY = 5.0
#: Seconds that containers of a pod whose object is gone may take to end.
FAREWELL = 2.0

_VERDICT = ".verdict"
#: Waiting reason of the containers of a pod without a slot.
_NO_SLOT = "OutOfpods"


@dataclass(frozen=True, slots=True)
class Slot:
    """One of the pods that a node runs at once.

    free: gives the slot to another pod. ask: asks for one again; `Worker.resume` is the answer, which may come at once.
    limit: says how many pods run at once.
    """

    limit: str
    free: Callable[[], None]
    ask: Callable[[], None]


class Worker:
    """Runs one pod. `run` returns when it has come to its end and the API server knows.

    The pod has its slot at first, and frees it as soon as none of its processes is left and while none of its
    containers can be started. Public: pod is its newest version known; over whether its processes have ended; gone
    whether its object has been deleted.
    """

    def __init__(self, host: Host, pod: Object, slot: Slot) -> None:
        self.pod = pod
        self.uid: str = pod["metadata"]["uid"]
        self.over = False
        self.gone = False
        self._slot = slot
        self._has_slot = True
        self._ref: Ref = ref_of(POD, pod)
        self._host = host
        self._folder = host.folder(self.uid)
        self._specs: dict[str, Object] = {one["name"]: one for one in _listed(pod)}
        self._containers = {name: Container(name) for name in self._specs}
        self._attempts: dict[str, ContainerAttempt] = {}
        self._recipes: dict[str, Recipe] = {}
        self._probes: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        #: The preStop hooks of attempts that are to end, by their folders.
        self._hooks: dict[Path, asyncio.Task[str | None]] = {}
        self._reported: Object | None = None
        self._ending: ContainerEnding | None = None
        self._backing_off: set[str] = set()
        #: Containers whose mounts were announced as not made.
        self._unmade: set[str] = set()
        self._wake = asyncio.Event()

    @property
    def sessions(self) -> dict[str, int]:
        """Of every running container the session of its processes."""
        return {
            name: attempt.pid
            for name, attempt in self._attempts.items()
            if attempt.pid is not None and isinstance(self._containers[name].state, ContainerRunning)
        }

    async def inside(self, name: str) -> tuple[ContainerAttempt, Recipe] | None:
        """Returns a running container with its environment and working directory; None if it does not run."""
        if name not in self._attempts or not isinstance(self._containers[name].state, ContainerRunning):
            return None
        attempt = self._attempts[name]
        if name not in self._recipes:
            # it was started by an earlier kubelet
            await self._prepare(name, attempt)
        return attempt, self._recipes[name]

    def update(self, pod: Object) -> None:
        """The pod's object changed."""
        self.pod = pod
        # Images may change, and with them what a container without a command runs when it is started next.
        self._specs = {one["name"]: one for one in _listed(pod)}
        self._wake.set()

    def resume(self) -> None:
        """The pod has a slot again."""
        self._has_slot = True
        for name, container in self._containers.items():
            if isinstance(container.state, ContainerWaiting) and container.state.reason == _NO_SLOT:
                self._set(name, replace(container, state=replace(container.state, retry=0.0)))

    async def renew(self) -> None:
        """Renews the files that running containers have from the cluster."""
        running = [
            self._specs[name] for name, one in self._containers.items() if isinstance(one.state, ContainerRunning)
        ]
        host = self._host
        try:
            found = await renewal.current(host.configs, host.access, self.pod, running, self._folder)
            # The folder goes with the pod.
            for place, content in () if self.over else found:
                folders.fill(place, content)
        except (ClusterError, OSError) as problem:
            log.warning("volumes were not renewed", extra={"pod": str(self._ref), "error": str(problem)})

    def vanish(self) -> None:
        """The pod's object is gone: ends the containers soon, and reports nothing more."""
        self.gone = True
        self.end(ContainerEnding("Deleted", "the pod was deleted", grace=FAREWELL))

    def end(self, ending: ContainerEnding) -> None:
        """Ends the pod with this verdict, unless it has one."""
        self._ending = self._ending or ending
        self._wake.set()

    def kill(self) -> None:
        """Ends all processes of the pod at once."""
        for attempt in self._attempts.values():
            attempt.signal(signal.SIGKILL)

    async def run(self) -> None:
        """Runs the pod. Cancelled, it leaves the processes alone, for the next kubelet to find."""
        self._folder.mkdir(parents=True, exist_ok=True)
        await self._restore()
        try:
            while not (decision := await self._turn()).finished:
                await self._sleep(decision.wake)
        finally:
            for task in (*self._tasks, *self._probes.values(), *self._hooks.values()):
                task.cancel()
        self.over = True
        self._slot.free()
        if not self.gone:
            await self._host.reports.settled(self.uid)
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    async def _turn(self) -> PodDecision:
        """Decides and acts once."""
        pod = status.merged(self.pod, self._reported)
        now = self._host.clock()
        decision = lifecycle.decide(pod, self._containers, now, ending=self._ending, backoff=self._host.backoff)
        if decision.ending is not None and self._ending is None:
            self._ending = decision.ending
            self._host.announcer.warning(self.pod, decision.ending.reason, decision.ending.message)
        self._announce_backoff(decision)
        for name in decision.start:
            await self._start(name)
        for name in decision.stop:
            self._stop(name)
        for name in decision.hook:
            self._pre_stop(name)
        for name in decision.kill:
            self._attempts[name].signal(signal.SIGKILL)
        if not self.gone:
            self._note_verdict()
            self._report(status.build(pod, self._containers, decision, now))
        if decision.stuck and self._has_slot:
            self._has_slot = False
            self._slot.free()
        return decision

    async def _sleep(self, wake: float) -> None:
        timeout = None if math.isinf(wake) else max(0.0, wake - self._host.clock())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._wake.wait()
        self._wake.clear()

    def _report(self, new: Object) -> None:
        if new != self._reported:
            self._reported = new
            self._host.reports.put(self._ref, self.uid, new)

    def _set(self, name: str, container: Container) -> None:
        self._containers[name] = container
        self._wake.set()

    # -- starting ------------------------------------------------------------------------------------------------

    async def _start(self, name: str) -> None:
        before, now = self._containers[name], self._host.clock()
        number = before.attempt + 1
        attempt = ContainerAttempt(self._folder / name / str(number))
        last = before.state if isinstance(before.state, Terminated) else before.last
        begun = Container(name, attempt=number, streak=self._host.backoff.next_streak(before), last=last)
        try:
            made = await self._prepare(name, attempt)
            if not self._has_slot:
                self._slot.ask()
            if not self._has_slot:
                waiting = ContainerWaiting(_NO_SLOT, self._slot.limit, math.inf)
                self._set(name, replace(before, state=waiting, last=last))
                return
            await self._launch(name, attempt, made)
        except (NoCommand, NotIsolated) as problem:
            self._hold(name, ContainerWaiting("CreateContainerError", str(problem), now + RETRY))
        except ConfigProblem as problem:
            self._hold(name, ContainerWaiting("CreateContainerConfigError", str(problem), now + RETRY))
        except ClusterError as problem:
            self._hold(name, ContainerWaiting("CreateContainerConfigError", f"not known yet: {problem}", now + 1.0))
        except (NotStartable, OSError, ValueError) as problem:
            self._host.announcer.warning(self.pod, "Failed", f"Error: container {name}: {problem}")
            self._set(name, replace(begun, state=Terminated(128, now, now, START_ERROR, str(problem))))
        else:
            self._host.announcer.normal(self.pod, "Started", f"Started container {name}")
            self._forget(name, number - 2)
            self._adopt(name, attempt, replace(begun, state=ContainerRunning(self._host.clock())), is_new=True)

    async def _launch(self, name: str, attempt: ContainerAttempt, made: Recipe) -> None:
        isolation = self._host.isolation
        # Known from now on: one that begins while this task is cancelled can be killed.
        self._attempts[name] = attempt
        if isolation.obstacle is None:
            await attempt.start_isolated(
                isolation, made.command, made.mounts.binds, env=made.env, cwd=made.cwd, reads=made.reads
            )
            return
        if made.mounts.unmade and name not in self._unmade:
            self._unmade.add(name)
            paths = ", ".join(made.mounts.unmade)
            why = f"container {name}: not mounted, because containers are not isolated ({isolation.obstacle}): {paths}"
            self._host.announcer.warning(self.pod, "MountNotMade", why)
        attempt.start(made.command, env=made.env, cwd=made.cwd, reads=made.reads)

    async def _prepare(self, name: str, attempt: ContainerAttempt) -> Recipe:
        """Makes the attempt's folders, the volumes, and what is needed to run its command."""
        spec = self._specs[name]
        if problem := probes.unsupported(spec):
            raise ConfigProblem(problem)
        host = self._host
        host.isolation.check()
        attempt.prepare()
        made = await recipe.make(
            *(host.configs, host.access, host.claims, host.images, self.pod, spec, self._folder, attempt.work),
            isolated=host.isolation.obstacle is None,
        )
        self._recipes[name] = made
        return made

    def _hold(self, name: str, state: ContainerWaiting) -> None:
        """The container cannot be started now."""
        before = self._containers[name]
        known = before.state
        if not isinstance(known, ContainerWaiting) or (known.reason, known.message) != (state.reason, state.message):
            self._host.announcer.warning(self.pod, "Failed", f"Error: container {name}: {state.message}")
        last = known if isinstance(known, Terminated) else before.last
        self._set(name, replace(before, state=state, last=last))

    def _adopt(self, name: str, attempt: ContainerAttempt, container: Container, *, is_new: bool = False) -> None:
        """Takes charge of a running attempt: its end, its output, its probes. is_new: it has yet to run its hook."""
        spec = self._specs[name]
        self._attempts[name] = attempt
        hook = is_new and bool(_hook(spec, "postStart"))
        started = "startupProbe" not in spec and not hook
        self._set(name, replace(container, started=started, ready=started and "readinessProbe" not in spec))
        self._spawn(self._attend(name, attempt))
        if hook or any(kind in spec for kind in probes.KINDS):
            self._probes[name] = asyncio.create_task(self._accompany(name, hook=hook))

    async def _attend(self, name: str, attempt: ContainerAttempt) -> None:
        """Follows an attempt to its end."""
        output = Log(attempt.folder, self._log_path(name, int(attempt.folder.name)))
        with self._host.following(output):
            await attempt.ended()
        await output.finish()
        if probe := self._probes.pop(name, None):
            probe.cancel()
        if hook := self._hooks.get(attempt.folder):
            hook.cancel()
        container = self._containers[name]
        stopping = None if container.unhealthy else container.stopping
        end = self._end(name, attempt, container.unhealthy or "")
        self._set(name, Container(name, end, container.attempt, container.streak, container.last, stopping))

    def _end(self, name: str, attempt: ContainerAttempt, why: str = "") -> Terminated:
        """Returns how an attempt ended whose output is logged. why: the message, else the container's own."""
        end = attempt.state()
        assert isinstance(end, Terminated)
        log_path = self._log_path(name, int(attempt.folder.name))
        own = termination_messages.of_end(self._specs[name], attempt.folder, log_path, end.code)
        return replace(end, message=why or own)

    # -- stopping ------------------------------------------------------------------------------------------------

    def _stop(self, name: str) -> None:
        container = self._containers[name]
        self._host.announcer.normal(self.pod, "Killing", f"Stopping container {name}")
        self._set(name, replace(container, stopping=self._host.clock(), ready=False))
        self._spawn(self._terminate(name))

    async def _terminate(self, name: str) -> None:
        attempt = self._attempts[name]
        problem = await self._pre_stop(name)
        if problem is not None:
            self._host.announcer.warning(self.pod, "FailedPreStopHook", f"container {name}: {problem}")
        await attempt.begun()
        attempt.signal(signal.SIGTERM)

    def _pre_stop(self, name: str) -> asyncio.Task[str | None]:
        """Begins the preStop hook of a container, unless it has begun. The task returns why it failed, or None."""
        folder = self._attempts[name].folder
        if folder not in self._hooks:
            self._hooks[folder] = asyncio.create_task(self._run_hook(name, "preStop"))
        return self._hooks[folder]

    async def _run_hook(self, name: str, kind: str) -> str | None:
        """Runs a hook of a container, if it has that; why it failed, or None. It lasts as long as the container."""
        hook = _hook(self._specs[name], kind)
        if "sleep" in hook:
            await asyncio.sleep(hook["sleep"].get("seconds", 0))
            return None
        try:
            return await self._ask(name, {"timeoutSeconds": math.inf, **hook}) if hook else None
        except probes.NotAsked as problem:
            return str(problem)

    # -- probes --------------------------------------------------------------------------------------------------

    async def _accompany(self, name: str, *, hook: bool) -> None:
        """Runs what goes beside a container until it ends: the hook of its start, and its probes."""
        async with asyncio.TaskGroup() as group:
            if hook:
                group.create_task(self._post_start(name))
            group.create_task(self._probe(name))

    async def _post_start(self, name: str) -> None:
        problem = await self._run_hook(name, "postStart")
        container, spec = self._containers[name], self._specs[name]
        if problem is not None:
            message = f"postStart hook failed: {problem}"
            self._host.announcer.warning(self.pod, "FailedPostStartHook", f"container {name}: {message}")
            self._set(name, replace(container, unhealthy=message))
        elif "startupProbe" not in spec:
            ready = container.ready or "readinessProbe" not in spec
            self._set(name, replace(container, started=True, ready=ready and container.stopping is None))

    async def _probe(self, name: str) -> None:
        spec = self._specs[name]

        async def check(probe: Object) -> str | None:
            return await self._ask(name, probe)

        def started(healthy: bool, why: str) -> None:
            container = self._containers[name]
            if healthy:
                ready = "readinessProbe" not in spec and container.stopping is None
                self._set(name, replace(container, started=True, ready=ready))
            else:
                self._unhealthy(name, "startup", why)

        def alive(healthy: bool, why: str) -> None:
            if not healthy:
                self._unhealthy(name, "liveness", why)

        def ready(healthy: bool, why: str) -> None:
            if not healthy:
                self._host.announcer.warning(self.pod, "Unhealthy", f"container {name}: readiness probe failed: {why}")
            container = self._containers[name]
            self._set(name, replace(container, ready=healthy and container.stopping is None))

        if "startupProbe" in spec:
            await probes.observe(spec["startupProbe"], check, started, once=True)
        async with asyncio.TaskGroup() as group:
            for kind, on_change in (("livenessProbe", alive), ("readinessProbe", ready)):
                if kind in spec:
                    group.create_task(probes.observe(spec[kind], check, on_change))

    def _unhealthy(self, name: str, kind: str, why: str) -> None:
        if self._containers[name].stopping is not None:
            # It may answer no more while it finishes its work.
            return
        message = f"{kind} probe failed: {why}"
        self._host.announcer.warning(self.pod, "Unhealthy", f"container {name}: {message}")
        grace = self._specs[name][f"{kind}Probe"].get("terminationGracePeriodSeconds")
        self._set(name, replace(self._containers[name], unhealthy=message, unhealthy_grace=grace))

    async def _ask(self, name: str, question: Object) -> str | None:
        """Asks beside a running container, in its environment and directory; why it failed, or None.

        Raises NotAsked when the environment of a container that an earlier kubelet started cannot be made again. A
        question over the network needs none.
        """
        attempt = self._attempts[name]
        env: Mapping[str, str] = {}
        cwd = attempt.work
        if "exec" in question:
            made = await self._made_again(name, attempt)
            env, cwd = made.env, attempt.work / made.cwd
        return await probes.ask(
            question,
            self._specs[name],
            address=loopback_addresses.of(self.pod),
            env=env,
            cwd=cwd,
            entering=entering(attempt.pid or 0),
        )

    async def _made_again(self, name: str, attempt: ContainerAttempt) -> Recipe:
        """Returns the recipe, made again for a container of an earlier kubelet. Raises NotAsked if that fails."""
        if name not in self._recipes:
            try:
                await self._prepare(name, attempt)
            except (PenstockError, OSError) as problem:
                raise probes.NotAsked(str(problem)) from problem
        return self._recipes[name]

    # -- memory --------------------------------------------------------------------------------------------------

    async def _restore(self) -> None:
        """Finds what an earlier kubelet left of this pod."""
        shown = self.pod.get("status") or {}
        statuses = [*(shown.get("initContainerStatuses") or ()), *(shown.get("containerStatuses") or ())]
        known = {one["name"]: one for one in statuses}
        with contextlib.suppress(FileNotFoundError):
            self._ending = ContainerEnding(**json.loads((self._folder / _VERDICT).read_text()))
        for name in self._specs:
            container, attempt = restore.container(name, self._folder / name, known.get(name))
            self._containers[name] = container
            if attempt is not None and isinstance(container.state, ContainerRunning):
                self._adopt(name, attempt, container)
            elif attempt is not None:
                # Processes that the ended command left behind may still run.
                await attempt.ended()
                await Log(attempt.folder, self._log_path(name, container.attempt)).finish()
                self._containers[name] = replace(container, state=self._end(name, attempt))

    def _note_verdict(self) -> None:
        """Saves the verdict: after a crash a container that it ended must not count as failed by itself."""
        path = self._folder / _VERDICT
        if self._ending is not None and not path.exists():
            path.write_text(json.dumps(asdict(self._ending)))

    def _log_path(self, name: str, number: int) -> Path:
        return self._host.log_folder(self.pod) / name / f"{number}.log"

    def _forget(self, name: str, number: int) -> None:
        """Removes an attempt that is out of reach: `kubectl logs --previous` goes back one."""
        if number >= 0:
            folder = self._folder / name / str(number)
            self._hooks.pop(folder, None)
            shutil.rmtree(folder, ignore_errors=True)
            path = self._log_path(name, number)
            for part in (*log_parts.earlier(path), path):
                part.unlink(missing_ok=True)

    def _announce_backoff(self, decision: PodDecision) -> None:
        for name in decision.backing_off:
            if name not in self._backing_off:
                self._host.announcer.warning(self.pod, "BackOff", f"Back-off restarting failed container {name}")
        self._backing_off = set(decision.backing_off)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _hook(spec: Object, kind: str) -> Object:
    """Returns the handler of a container's hook, postStart or preStop; empty without one."""
    handler: Object = (spec.get("lifecycle") or {}).get(kind) or {}
    return handler


def _listed(pod: Object) -> list[Object]:
    return [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]
