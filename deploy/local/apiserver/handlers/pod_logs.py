"""Container output over the API, from the files the kubelet writes.

A file per run of a container, ``<namespace>_<pod>_<uid>/<container>/<restart>.log``, with the earlier parts of a long
output beside it (`log_parts`); a line is
``<RFC 3339 time with nanoseconds> stdout|stderr F|P <text>``, P for a part that the next line continues.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import BinaryIO

from deploy.local import log_parts
from deploy.local.apiserver import api_errors
from deploy.local.apiserver.api_errors import bad_request
from deploy.local.apiserver.codec import field_errors
from deploy.local.apiserver.context import Context
from deploy.local.apiserver.discovery.api_resources import RequestTarget
from deploy.local.apiserver.http.request import ApiRequest, Stream
from workers.api import times
from workers.api.kinds import Kind, Object
from workers.api.statuses import is_finished

#: Seconds between two reads of a file that is followed.
POLL = 0.1
BLOCK = 64 * 1024
YEAR = 366 * 24 * 3600
_OPTIONS = Kind("", "v1", "PodLogOptions", "")
_MOMENT = "%Y-%m-%dT%H:%M:%S.%f"


@dataclass(frozen=True, slots=True)
class LogOptions:
    """The wanted part of the output. since: the beginning of an RFC 3339 text in UTC, up to microseconds: the times of
    lines are compared with it as texts.
    """

    follow: bool = False
    timestamps: bool = False
    tail: int | None = None
    since: str = ""
    limit: int | None = None


def options_of(request: ApiRequest, now: datetime, pod: str) -> LogOptions:
    """The options of a request. Raises ApiError: 400 for malformed ones, 422 for values that make no sense."""
    tail, limit, seconds = (request.number(name) for name in ("tailLines", "limitBytes", "sinceSeconds"))
    errors = field_errors.non_negative("tailLines", tail)
    for name, number in (("limitBytes", limit), ("sinceSeconds", seconds)):
        if number is not None and number < 1:
            errors.append(field_errors.invalid(name, number, "must be greater than 0"))
    if seconds is not None and request.query.get("sinceTime"):
        detail = "at most one of `sinceTime` or `sinceSeconds` may be specified"
        errors.append(field_errors.forbidden("[]", detail))
    if errors:
        raise api_errors.invalid(_OPTIONS, pod, errors)
    since = request.query.get("sinceTime", "")
    if seconds is not None:
        # A year is longer than any pod of a laptop runs, and a datetime ends before 64 bits of seconds do.
        since = (now - timedelta(seconds=min(seconds, YEAR))).strftime(_MOMENT)
    elif since:
        try:
            since = times.parse(since).strftime(_MOMENT)
        except ValueError:
            raise bad_request(f'sinceTime: parsing time "{since}": not RFC 3339') from None
    return LogOptions(request.flag("follow"), request.flag("timestamps"), tail, since, limit)


def container_of(pod: Object, asked: str) -> str:
    """The container whose output is meant; 400 when the pod has no such one, or several to choose from."""
    spec, name = pod["spec"], pod["metadata"]["name"]
    containers = [container["name"] for container in spec.get("containers") or ()]
    init = [container["name"] for container in spec.get("initContainers") or ()]
    if not asked:
        if len(containers) == 1:
            return str(containers[0])
        text = f"a container name must be specified for pod {name}, choose one of: [{' '.join(containers)}]"
        raise bad_request(f"{text} or one of the init containers: [{' '.join(init)}]" if init else text)
    if asked not in containers and asked not in init:
        raise bad_request(f"container {asked} is not valid for pod {name}")
    return asked


def _status(pod: Object, container: str) -> Object:
    status = pod.get("status") or {}
    found: list[Object] = [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]
    return next((entry for entry in found if entry.get("name") == container), {})


def _run(folder: Path, pod: Object, container: str, *, previous: bool) -> Path:
    """The file of a container's current run, or of the one before; 400 when there is none."""
    name = pod["metadata"]["name"]
    runs = sorted((int(path.stem) for path in folder.glob("*.log") if path.stem.isdigit()), reverse=True)
    restarts = _status(pod, container).get("restartCount") or 0
    if previous:
        earlier = [run for run in runs if run < restarts or run < (runs[0] if runs else 0)]
        if not earlier:
            raise bad_request(f'previous terminated container "{container}" in pod "{name}" not found')
        return folder / f"{earlier[0]}.log"
    if not runs:
        state = _status(pod, container).get("state") or {}
        if ended := state.get("terminated"):
            why = ": ".join(filter(None, (ended.get("reason"), ended.get("message"))))
            raise bad_request(f'container "{container}" in pod "{name}" is terminated and has no output: {why}')
        waiting = state.get("waiting") or {}
        if not pod["spec"].get("nodeName"):
            raise bad_request(f"pod {name} does not have a host assigned")
        reason = waiting.get("reason", "ContainerCreating")
        raise bad_request(f'container "{container}" in pod "{name}" is waiting to start: {reason}')
    return folder / f"{runs[0]}.log"


def stream(ctx: Context, request: ApiRequest, target: RequestTarget) -> Stream:
    """GET of a pod's log."""
    record = ctx.store.get(target.resource.storage, target.key)
    if record is None:
        raise api_errors.not_found(target.resource.kind, target.name)
    pod = record.body
    container = container_of(pod, request.query.get("container", ""))
    options = options_of(request, ctx.now(), target.name)
    folder = ctx.logs / f"{target.namespace}_{target.name}_{record.uid}" / container
    path = _run(folder, pod, container, previous=request.flag("previous"))
    run = int(path.stem)

    def finished() -> bool:
        now = ctx.store.get(target.resource.storage, target.key)
        if ctx.hub.closing or now is None or now.uid != record.uid:
            return True
        body = now.body
        status = _status(body, container)
        over = is_finished(body)
        return over or (status.get("restartCount") or 0) > run or "terminated" in (status.get("state") or {})

    return Stream(_limited(_chunks(path, options, finished), options.limit), "text/plain")


async def _limited(chunks: AsyncIterator[bytes], limit: int | None) -> AsyncIterator[bytes]:
    async for chunk in chunks:
        if limit is None:
            yield chunk
        else:
            yield chunk[:limit]
            limit -= len(chunk)
            if limit <= 0:
                return


async def _chunks(path: Path, options: LogOptions, finished: Callable[[], bool]) -> AsyncIterator[bytes]:
    """The output so far and, when it is followed, what is added until the run has finished."""
    with _LogFiles(path) as parts:
        if options.tail is not None:
            parts.keep_tail(options.tail)
        rest = b""
        while True:
            last = not options.follow or finished()
            while block := parts.read():
                *lines, rest = (rest + block).split(b"\n")
                if shown := b"".join(_shown(lines, options)):
                    yield shown
                await asyncio.sleep(0)
            if last:
                if rest:
                    yield b"".join(_shown([rest], options))
                return
            await asyncio.sleep(POLL)


class _LogFiles:
    """The open files of one log, the oldest first; they are read one after the other. path: of the newest one.

    A file that the kubelet moves or removes meanwhile can be read to its end.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._files: list[BinaryIO] = []

    def __enter__(self) -> "_LogFiles":
        self._files = self._opened()
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files:
            file.close()

    def _opened(self) -> list[BinaryIO]:
        """Opens all parts. One that is moved meanwhile is opened once."""
        found: dict[int, BinaryIO] = {}
        for part in (*log_parts.earlier(self._path), self._path):
            with contextlib.suppress(FileNotFoundError):
                file = part.open("rb")
                if found.setdefault(os.fstat(file.fileno()).st_ino, file) is not file:
                    file.close()
        return list(found.values())

    def keep_tail(self, lines: int) -> None:
        """Goes to the last so many lines."""
        for place in range(len(self._files) - 1, -1, -1):
            lines -= _seek_tail(self._files[place], lines)
            if lines <= 0:
                self._drop(place)
                return

    def _drop(self, number: int) -> None:
        for file in self._files[:number]:
            file.close()
        del self._files[:number]

    def read(self) -> bytes:
        """Returns what comes next; nothing at the end of the newest file."""
        while self._files:
            if block := self._files[0].read(BLOCK):
                return block
            if len(self._files) == 1 and not self._renewed():
                return b""
            if block := self._files[0].read(BLOCK):
                return block
            self._drop(1)
        return b""

    def _renewed(self) -> bool:
        """Opens the parts after the only open one; whether there are any. All of them if it was dropped."""
        own = os.fstat(self._files[0].fileno()).st_ino
        try:
            if self._path.stat().st_ino == own:
                return False
        except FileNotFoundError:
            return False
        parts = self._opened()
        numbers = [os.fstat(file.fileno()).st_ino for file in parts]
        known = numbers.index(own) + 1 if own in numbers else 0
        for file in parts[:known]:
            file.close()
        self._files += parts[known:]
        return True


def _shown(lines: list[bytes], options: LogOptions) -> Iterator[bytes]:
    """The lines as clients see them."""
    for line in lines:
        time, _, rest = line.partition(b" ")
        _, _, rest = rest.partition(b" ")
        tag, _, text = rest.partition(b" ")
        if options.since and time.decode("ascii", "replace") < options.since:
            continue
        if options.timestamps:
            yield time + b" "
        yield text if tag == b"P" else text + b"\n"


def _seek_tail(file: BinaryIO, lines: int) -> int:
    """Places the file at the beginning of its last so many lines. Returns how many these are."""
    size = at = file.seek(0, 2)
    if not at or lines <= 0:
        return 0
    found = 0
    while at:
        start = max(0, at - BLOCK)
        file.seek(start)
        block = file.read(at - start)
        for place in range(len(block) - 1, -1, -1):
            # The newline that ends the last line does not begin another one.
            if block[place] == 0x0A and start + place + 1 < size:
                found += 1
                if found == lines:
                    file.seek(start + place + 1)
                    return lines
        at = start
    file.seek(0)
    return found + 1
