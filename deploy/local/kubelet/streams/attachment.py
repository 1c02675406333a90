"""attach: what a running container prints from now on, and what the client gives it to read."""

import asyncio
import contextlib
import json
import os
import struct
from collections.abc import Iterable
from pathlib import Path

from deploy.local.kubelet.containers import console
from deploy.local.kubelet.pods.host import PUMP
from deploy.local.kubelet.streams import channels, descriptors
from deploy.local.kubelet.streams.channels import Channels
from deploy.local.kubelet.streams.descriptors import BLOCK
from deploy.local.kubelet.streams.execution import Streams

_FILES = (("out", channels.STDOUT), ("err", channels.STDERR))
#: Seconds between two looks at the output for a client that types and waits for what it causes.
_PROMPT = 0.02


async def send_output(folder: Path, streams: Streams, ended: asyncio.Future[None], client: Channels) -> None:
    """Sends what is added to the output files of an attempt, until `ended` is done and everything is sent."""
    wanted = {channels.STDOUT: streams.stdout, channels.STDERR: streams.stderr}
    with contextlib.ExitStack() as stack:
        # Opened once: the folder goes soon after the end of the pod.
        files = [
            (stack.enter_context((folder / name).open("rb")), channel) for name, channel in _FILES if wanted[channel]
        ]
        for file, _ in files:
            file.seek(0, os.SEEK_END)
        while True:
            over = ended.done()
            for file, channel in files:
                while data := file.read(BLOCK):
                    await client.send(channel, data)
            if over:
                return
            await asyncio.wait((ended,), timeout=_PROMPT if streams.stdin else PUMP)


async def take_input(
    client: Channels, pipe: Path, streams: Streams, ended: asyncio.Future[None], *, once: bool
) -> None:
    """Gives the console of a container what the client sends, until the client has closed the connection.

    once: with the client's input that of the container ends.
    """
    # The console has opened the other end before its command begins. One that has ended takes nothing.
    try:
        descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        await client.left()
        return
    try:
        async for channel, data in client.receive():
            if channel == channels.STDIN and streams.stdin:
                await _write(descriptor, console.frames(console.DATA, data), ended)
            elif channel == channels.RESIZE:
                with contextlib.suppress(ValueError, KeyError, TypeError, struct.error):
                    size = json.loads(data)
                    await _write(descriptor, (console.window(size["Height"], size["Width"]),), ended)
            elif channel == channels.CLOSE and data == bytes((channels.STDIN,)) and streams.stdin and once:
                await _write(descriptor, console.frames(console.END), ended)
        if streams.stdin and once:
            await _write(descriptor, console.frames(console.END), ended)
    finally:
        if streams.stdin and once:
            # Also for a client that vanished. A second end of the input means nothing.
            with contextlib.suppress(OSError):
                os.write(descriptor, next(console.frames(console.END)))
        os.close(descriptor)


async def _write(descriptor: int, frames: Iterable[bytes], ended: asyncio.Future[None]) -> None:
    """Writes frames. A console that has ended takes none."""
    with contextlib.suppress(OSError):
        for frame in frames:
            await descriptors.feed(descriptor, frame, ended)
