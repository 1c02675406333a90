"""Credentials of a plugin: a request that is cancelled takes nothing from the others."""

import asyncio

import pytest

from workers.client.credentials import PluginCredentials
from workers.client.exec_plugin import ExecCredential
from workers.errors import Unavailable


async def test_a_request_that_is_cancelled_while_the_plugin_runs_keeps_none_from_running_it_at_once() -> None:
    runs = [asyncio.Event(), asyncio.Event()]

    async def run() -> ExecCredential:
        if runs[0].is_set():
            return ExecCredential("good")
        runs[0].set()
        await runs[1].wait()
        raise AssertionError

    credentials = PluginCredentials(run, clock=lambda: 0.0)
    first = asyncio.create_task(credentials.authorization())
    await runs[0].wait()
    second = asyncio.create_task(credentials.authorization())
    first.cancel()
    assert await second == "Bearer good"
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_a_plugin_that_failed_just_now_is_not_run_again() -> None:
    runs = []

    async def run() -> ExecCredential:
        runs.append(1)
        raise Unavailable("no")

    credentials = PluginCredentials(run, clock=lambda: 0.0)
    for _ in range(2):
        with pytest.raises(Unavailable, match="no"):
            await credentials.authorization()
    assert len(runs) == 1
