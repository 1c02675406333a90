"""attach: what a running container prints from now on."""

import asyncio
import contextlib
import os
from pathlib import Path

from deploy.local.kubelet.pods.host import PUMP
from deploy.local.kubelet.streams import channels
from deploy.local.kubelet.streams.channels import Channels
from deploy.local.kubelet.streams.descriptors import BLOCK
from deploy.local.kubelet.streams.execution import Streams

_FILES = (("out", channels.STDOUT), ("err", channels.STDERR))


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
            await asyncio.wait((ended,), timeout=PUMP)
