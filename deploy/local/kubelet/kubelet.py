"""The kubelet itself: follows the pods of the cluster, gives them places, and has a worker run each of them."""

import asyncio
import logging
import os
import shutil
import signal
import time
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from deploy.local.image_commands import Images
from deploy.local.kubelet import pod_order
from deploy.local.kubelet.containers import resource_usage
from deploy.local.kubelet.containers.attempt import PID_FILES, ContainerAttempt
from deploy.local.kubelet.containers.container_states import ContainerEnding
from deploy.local.kubelet.containers.isolation import Isolation, IsolationMode
from deploy.local.kubelet.pods import recipe, status
from deploy.local.kubelet.pods.api_server_access import ApiServerAccess
from deploy.local.kubelet.pods.host import Host
from deploy.local.kubelet.pods.lifecycle import ContainerBackoff
from deploy.local.kubelet.pods.pod_events import Announcer, Wanted
from deploy.local.kubelet.pods.pod_worker import Slot, Worker
from deploy.local.kubelet.pods.status_reports import Reports
from deploy.local.kubelet.presented_nodes import NodeOptions, PresentedNodes
from deploy.local.kubelet.streams.stream_server import StreamServer
from deploy.local.kubelet.volumes.config_data import Configs
from deploy.local.kubelet.volumes.volume_claims import VolumeClaims
from deploy.local.supervisor import guard, guard_restart
from workers.api.kinds import NODE, POD, Object, Ref, ref_of
from workers.api.statuses import is_finished
from workers.cancellation import cancelled
from workers.client.rest import Cluster
from workers.errors import ClusterError, Conflict, Gone, NotFound, UserError

log = logging.getLogger(__name__)

#: Seconds between two reports of waiting pods, seconds that a pod waits before its report, and reports at once:
#: a thousand waiting pods must not cost the running ones their status.
_WAITING_PERIOD, _PATIENCE, _REPORTED_AT_ONCE = 1.0, 1.0, 50
#: Seconds until a pod whose program is missing is tried again: it may have been installed.
_MISSING_PERIOD = 5.0
#: Seconds between two looks at what running containers have from the cluster, as a real kubelet's.
_RENEWAL_PERIOD = 60.0
#: Pause before the API server is asked again after a failure (seconds); doubles up to the last.
_PAUSE, _LONGEST_PAUSE = 0.2, 5.0
#: Seconds that one watch lasts.
_WATCH = 300.0

#: Seconds for the last statuses after the pods have ended.
_REPORTING = 3.0
_SHUTDOWN = "Pod was terminated in response to imminent node shutdown."


@dataclass(frozen=True, slots=True)
class KubeletOptions:
    """node: name of the first Node. pods: how many run at once. root: folder for pods, logs: for their logs. images:
    commands of containers that name none.

    farewell: seconds pods get to end when the kubelet stops. orphans: seconds after a crash of the kubelet until the
    guard ends the pods, unless another kubelet has taken over. isolation: whether containers have mounts and process
    ids of their own.
    """

    node: str
    pods: int
    root: Path
    logs: Path
    events: Wanted = "all"
    images: Images = field(default_factory=Images.of)
    backoff: ContainerBackoff = field(default_factory=ContainerBackoff)
    farewell: float = 5.0
    orphans: float = 30.0
    isolation: IsolationMode = "none"
    nodes: NodeOptions = field(default_factory=NodeOptions)


class Kubelet:
    """Runs the pods of its nodes. Use `serve`."""

    def __init__(self, cluster: Cluster, options: KubeletOptions, host: Host) -> None:
        self._cluster = cluster
        self._options = options
        self._host = host
        self._nodes = PresentedNodes(cluster, options.node, options.pods, options.nodes)
        self._usage = resource_usage.ContainerUsage(cluster, self._measurable, host.clock)
        self._queue = pod_order.PodQueue()
        self._workers: dict[str, Worker] = {}
        #: the newest version of pods that are being bound; None when deleted meanwhile
        self._binding: dict[str, Object | None] = {}
        #: uids of pods that hold a place: being bound, or with processes
        self._placed: set[str] = set()
        #: uids of pods that ended here: a late echo of an earlier version must not run them again
        self._done: set[str] = set()
        #: uids of pods whose node is none of ours and was looked for
        self._strays: set[str] = set()
        self._left = {path.name for path in host.root.iterdir() if path.is_dir()}
        self._tasks: set[asyncio.Task[None]] = set()
        #: by uid, pods that get no node, and so hold neither a slot nor resources: none may take them, or they have
        #: containers with nothing to run
        self._aside: dict[str, Object] = {}
        self._programs = recipe.KnownPrograms()
        #: from the stop signal on: a place that becomes free, or an answer to a binding, begins no pod any more
        self._stopping = False

    async def serve(self, stop: asyncio.Event) -> None:
        """Runs pods until `stop` is set, then ends them all.

        Ends with an error only by a mistake of its own; the pods are left to the next kubelet then.
        """
        loops = (
            self._nodes.live(self._see_again),
            self._follow(),
            self._report_waiting(),
            self._retry(),
            self._renew(),
            self._host.claims.keep_tidy(),
            self._usage.live(),
            StreamServer(self._host.logs, self._workers.get).serve(),
            self._host.copy_output(),
        )
        running = [asyncio.create_task(loop) for loop in loops]
        stopped = asyncio.create_task(stop.wait())
        try:
            done, _ = await asyncio.wait({*running, stopped}, return_when=asyncio.FIRST_COMPLETED)
            for task in done - {stopped}:
                task.result()
            self._stopping = True
            # the copying of output goes on until the last container has ended
            await cancelled(*running[:-1])
            await self._end_all()
            await self._nodes.leave()
        finally:
            await cancelled(stopped, *running, *self._tasks)

    def _measurable(self) -> list[resource_usage.MeasuredContainer]:
        living = (worker for worker in self._workers.values() if not worker.gone)
        return [resource_usage.MeasuredContainer(worker.pod, worker.sessions) for worker in living]

    async def _end_all(self) -> None:
        grace = self._options.farewell
        for worker in self._workers.values():
            worker.end(ContainerEnding("Terminated", _SHUTDOWN, grace=grace, disruption=True))
        # a status that cannot be sent in time is sent by the next kubelet
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace + _REPORTING)
        # once its task is cancelled, a container that was about to start cannot start any more
        await cancelled(*self._tasks)
        for worker in self._workers.values():
            worker.kill()

    # -- following the pods --------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        version, pause = "", _PAUSE
        while True:
            try:
                if not version:
                    pods, version = await self._cluster.list(POD)
                    self._replace(pods)
                bursts = self._cluster.follow(POD, resource_version=version, timeout=_WATCH)
                async with aclosing(bursts):
                    async for burst in bursts:
                        for event in burst:
                            version = event.object["metadata"]["resourceVersion"]
                            if event.type != "BOOKMARK":
                                self._observe(event.object, deleted=event.type == "DELETED")
                        self._place()
                        pause = _PAUSE
            except Gone:
                version = ""
            except ClusterError as error:
                log.warning("the pods cannot be followed", extra={"error": str(error), "again": pause})
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)

    def _replace(self, pods: list[Object]) -> None:
        """All pods there are: what is not among them is gone."""
        listed = {pod["metadata"]["uid"] for pod in pods}
        for uid in set(self._workers) - listed:
            self._workers[uid].vanish()
        self._queue.keep(listed)
        self._done &= listed
        self._strays &= listed
        self._aside = {uid: pod for uid, pod in self._aside.items() if uid in listed}
        for pod in pods:
            self._observe(pod)
        self._clean({self._host.log_folder(pod).name for pod in pods}, listed)
        self._place()

    def _observe(self, pod: Object, *, deleted: bool = False) -> None:
        """One version of one pod."""
        uid = pod["metadata"]["uid"]
        self._aside.pop(uid, None)
        if deleted:
            self._forget(pod)
        elif worker := self._workers.get(uid):
            worker.update(pod)
            if is_finished(pod) and not worker.over:
                shown = pod["status"]
                worker.end(
                    ContainerEnding(shown.get("reason") or "Terminated", shown.get("message") or "ended from outside")
                )
        elif uid in self._binding:
            self._binding[uid] = pod
        elif (node := pod["spec"].get("nodeName")) and node not in self._nodes:
            self._queue.discard(uid)
            self._look_for_node(pod)
        elif uid in self._done or not pod_order.is_ours(pod, self._nodes) or is_finished(pod):
            self._queue.discard(uid)
            self._finalize(pod)
        elif uid in self._left and pod["spec"].get("nodeName"):
            # it ran here before this kubelet started, so it has its place already
            self._begin(pod)
        elif pod["metadata"].get("deletionTimestamp"):
            self._queue.discard(uid)
            self._finalize(pod)
        elif not pod["spec"].get("nodeName") and (why := self._nodes.mismatch(pod)):
            self._queue.discard(uid)
            self._set_aside(pod, why)
        elif not pod["spec"].get("nodeName") and (
            problems := recipe.problems(pod, self._options.images, self._programs)
        ):
            self._queue.discard(uid)
            self._set_aside(pod, "; ".join(f"container {name}: {why}" for name, why in problems.items()), problems)
        else:
            self._queue.put(pod, time.monotonic())

    def _forget(self, pod: Object) -> None:
        """The pod's object is gone."""
        uid = pod["metadata"]["uid"]
        self._queue.discard(uid)
        self._done.discard(uid)
        self._strays.discard(uid)
        if uid in self._binding:
            self._binding[uid] = None
        if uid in self._workers:
            self._workers[uid].vanish()
        else:
            self._spawn(_removed(self._host.log_folder(pod)))

    def _finalize(self, pod: Object) -> None:
        """Completes the deletion of a pod without processes here, if it is bound to a node of ours or to none."""
        metadata, node = pod["metadata"], pod["spec"].get("nodeName")
        if not metadata.get("deletionTimestamp"):
            return
        if not node and not is_finished(pod):
            # Finalizers keep a pod that never ran, and the Job controller waits for its end before it removes them.
            self._host.reports.put(ref_of(POD, pod), metadata["uid"], {"phase": "Failed"})
        # without a grace period it waits for its finalizers only
        elif node in self._nodes and metadata.get("deletionGracePeriodSeconds") != 0:
            self._spawn(self._delete(pod))

    def _look_for_node(self, pod: Object) -> None:
        """Sees to a pod of another node: if that does not exist, no kubelet does."""
        metadata = pod["metadata"]
        deleted = bool(metadata.get("deletionTimestamp"))
        # A deleted pod without a grace period waits for its finalizers only.
        if deleted and metadata.get("deletionGracePeriodSeconds") != 0:
            self._spawn(self._see_to_stray(pod))
        elif not deleted and not is_finished(pod) and metadata["uid"] not in self._strays:
            self._strays.add(metadata["uid"])
            self._spawn(self._see_to_stray(pod))

    async def _see_to_stray(self, pod: Object) -> None:
        """Warns of a pod whose node does not exist, or completes its deletion."""
        ref, node = ref_of(POD, pod), pod["spec"]["nodeName"]
        async for _ in _attempts():
            try:
                await self._cluster.get(Ref(NODE, "", node))
            except NotFound:
                break
            except ClusterError as error:
                log.warning("a node could not be read", extra={"node": node, "pod": str(ref), "error": str(error)})
            else:
                return
        if not pod["metadata"].get("deletionTimestamp"):
            why = f"spec.nodeName: there is no node {node}: the pod waits for one of this name"
            self._host.announcer.warning(pod, "NodeNotFound", why)
            return
        if not is_finished(pod):
            self._host.reports.put(ref, pod["metadata"]["uid"], {"phase": "Failed"})
        await self._delete(pod)

    def _clean(self, logs: set[str], pods: set[str]) -> None:
        """Removes what pods that are gone left on the disk; their processes first, should any still run."""
        for uid in self._left - set(self._workers):
            self._left.discard(uid)
            self._spawn(_swept(self._host.folder(uid)))
        for path in self._host.logs.iterdir() if self._host.logs.exists() else ():
            if path.name not in logs and path.name.count("_") == 2 and path.name.rpartition("_")[2] not in pods:
                self._spawn(_removed(path))

    # -- places --------------------------------------------------------------------------------------------------

    def _place(self) -> None:
        """Gives free places to pods that wait."""
        while not self._stopping and len(self._placed) < self._options.pods and (pod := self._queue.take()) is not None:
            uid, bound = pod["metadata"]["uid"], pod["spec"].get("nodeName")
            if not bound and (why := self._nodes.mismatch(pod)):
                self._set_aside(pod, why)
                continue
            self._placed.add(uid)
            if worker := self._workers.get(uid):
                self._nodes.hold(pod, bound)
                worker.resume()
            elif bound:
                self._begin(pod)
            else:
                node = self._nodes.choose(pod)
                self._nodes.hold(pod, node)
                self._binding[uid] = pod
                self._spawn(self._bind(pod, node))

    def _set_aside(self, pod: Object, why: str, problems: Mapping[str, str] = MappingProxyType({})) -> None:
        """Reports a pod that gets no node until something changes. problems: those of its containers."""
        self._aside[pod["metadata"]["uid"]] = pod
        self._refuse(pod, why, problems)

    def _see_again(self) -> None:
        """Looks at the pods that were set aside: a node has changed, or a program may have been installed."""
        for pod in tuple(self._aside.values()):
            self._observe(pod)
        self._place()

    async def _bind(self, pod: Object, node: str) -> None:
        ref, uid = ref_of(POD, pod), pod["metadata"]["uid"]
        path = POD.path(ref.namespace, ref.name, "binding")
        try:
            if claim := await self._host.claims.deleted(pod):
                self._leave_unbound(uid, f'persistentvolumeclaim "{claim}" is being deleted')
                return
            await self._cluster.request("POST", path, body=pod_order.binding(pod, node))
        except ClusterError as error:
            log.info("a pod was not bound", extra={"pod": str(ref), "error": str(error)})
            await self._read_again(pod)
            return
        newest = self._binding.pop(uid)
        if newest is None:
            self._free(uid)
            return
        self._host.announcer.normal(pod, "Scheduled", f"Assigned {ref.namespace}/{ref.name} to {node}")
        self._begin({**newest, "spec": {**newest["spec"], "nodeName": node}})

    def _leave_unbound(self, uid: str, why: str) -> None:
        """Gives the place of a pod that was to be bound to another one."""
        newest = self._binding.pop(uid)
        if newest is not None:
            self._set_aside(newest, f"0/{self._options.nodes.number} nodes are available: {why}")
        self._free(uid)

    async def _read_again(self, pod: Object) -> None:
        """Reads a pod again after a failed binding: deleted, bound elsewhere, or bound here and the answer was lost."""
        uid = pod["metadata"]["uid"]
        found: Object | None = None
        async for _ in _attempts():
            try:
                found = await self._cluster.get(ref_of(POD, pod))
            except NotFound:
                break
            except ClusterError:
                continue
            break
        self._binding.pop(uid)
        if found is not None and found["metadata"]["uid"] == uid:
            self._observe(found)
            await asyncio.sleep(_PAUSE)
        self._free(uid)

    def _refuse(self, pod: Object, why: str, problems: Mapping[str, str] = MappingProxyType({})) -> None:
        """Reports in a pod's status and in an Event that it cannot be scheduled. problems: those of its containers."""
        known = (pod.get("status") or {}).get("conditions") or ()
        if not any(one["type"] == "PodScheduled" and one.get("message") == why for one in known):
            shown = status.unschedulable(pod, why, self._host.clock(), problems)
            self._host.reports.put(ref_of(POD, pod), pod["metadata"]["uid"], shown)
            self._host.announcer.warning(pod, "FailedScheduling", why)

    async def _report_waiting(self) -> None:
        """Reports pods that wait for long as unschedulable, some at a time."""
        number = self._options.nodes.number
        why = f"0/{number} nodes are available: {number} Too many pods: {pod_order.limit(self._options.pods)}"
        while True:
            await asyncio.sleep(_WAITING_PERIOD)
            for pod in self._queue.overdue(time.monotonic(), _PATIENCE, _REPORTED_AT_ONCE):
                # A pod that is bound says itself what it waits for.
                if pod["metadata"]["uid"] not in self._workers:
                    self._refuse(pod, why)

    async def _retry(self) -> None:
        while True:
            await asyncio.sleep(_MISSING_PERIOD)
            self._see_again()

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(_RENEWAL_PERIOD)
            for worker in tuple(self._workers.values()):
                await worker.renew()

    # -- running -------------------------------------------------------------------------------------------------

    def _begin(self, pod: Object) -> None:
        """Runs a pod that has its place; when the kubelet stops, it is left to the next one."""
        if self._stopping:
            return
        uid = pod["metadata"]["uid"]
        self._placed.add(uid)
        self._nodes.hold(pod, pod["spec"]["nodeName"])
        slot = Slot(pod_order.limit(self._options.pods), lambda: self._leave(uid), lambda: self._ask(uid))
        worker = self._workers[uid] = Worker(self._host, pod, slot)
        self._spawn(self._run(worker))

    def _leave(self, uid: str) -> None:
        """The pod ends, or cannot start: it neither has nor wants a slot."""
        self._queue.discard(uid)
        self._free(uid)

    def _ask(self, uid: str) -> None:
        """A pod that could not start can start now."""
        self._queue.put(self._workers[uid].pod, time.monotonic())
        self._place()

    async def _run(self, worker: Worker) -> None:
        try:
            await worker.run()
        except Exception:
            # a mistake of ours in one pod must not end the others; it is taken up again from its files
            log.exception("a pod is taken up again", extra={"pod": worker.uid})
            await asyncio.sleep(_LONGEST_PAUSE)
            if not worker.gone:
                self._begin(worker.pod)
                return
        del self._workers[worker.uid]
        if worker.gone:
            self._free(worker.uid)
            await _removed(self._host.log_folder(worker.pod))
            return
        self._done.add(worker.uid)
        self._finalize(worker.pod)

    def _free(self, uid: str) -> None:
        self._placed.discard(uid)
        self._nodes.free(uid)
        self._place()

    async def _delete(self, pod: Object) -> None:
        """Removes the object of a pod that has ended; nothing of it runs any more."""
        ref = ref_of(POD, pod)
        async for _ in _attempts():
            try:
                await self._cluster.delete(ref, uid=pod["metadata"]["uid"], grace=0)
            except (NotFound, Conflict):
                return
            except ClusterError as error:
                log.warning("a pod could not be removed", extra={"pod": str(ref), "error": str(error)})
            else:
                return

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


@asynccontextmanager
async def kubelet(cluster: Cluster, options: KubeletOptions) -> AsyncIterator[Kubelet]:
    """A kubelet with all it needs. Raises UserError when another one works in the same folder."""
    root, logs = options.root.resolve(), options.logs.resolve()
    for folder in (root, logs):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = root / "lock"
    if (held := guard.hold(lock)) is None:
        raise UserError(f"--root {root}: another kubelet works in this folder (pid {guard.holder(lock)})")
    reports, announcer = Reports(cluster), Announcer(cluster, options.events)
    pods = root / "pods"
    watchman = guard.Guard(delay=options.orphans, lock=lock, grace=options.farewell, pids=(pods, PID_FILES))
    pods.mkdir(exist_ok=True)
    claims = VolumeClaims(cluster, root / "claims")
    isolated = Isolation(options.isolation, root)
    host = Host(
        options.node,
        pods,
        logs,
        options.backoff,
        reports,
        Configs(cluster),
        ApiServerAccess(cluster),
        claims,
        announcer,
        options.images,
        isolated,
    )
    keeping = asyncio.create_task(guard_restart.keep(watchman))
    try:
        yield Kubelet(cluster, options, host)
        await announcer.close()
        await cancelled(keeping)
        watchman.dismiss()
    finally:
        await cancelled(keeping)
        isolated.close()
        await reports.close()
        os.close(held)


async def _attempts() -> AsyncIterator[None]:
    """Yields at once, and then after pauses that double up to the longest, without end."""
    pause = _PAUSE
    while True:
        yield
        await asyncio.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)


async def _removed(folder: Path) -> None:
    await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


async def _swept(folder: Path) -> None:
    """Ends what still runs of a pod that is gone, and removes its folder."""
    for attempt in (ContainerAttempt(path) for path in folder.glob("*/[0-9]*")):
        attempt.signal(signal.SIGKILL)
    await _removed(folder)
