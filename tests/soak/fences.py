"""The fences that keep work from being done twice, each of which a soak can do without: it must fail then.

`take_out` changes this process, and so its forks, which are the installation's parts.
"""

import itertools
import random
import time
from collections.abc import Callable, Mapping

from scalers.gateway import group_commit
from scalers.sources.events import intake
from scalers.sources.redis import lists, streams
from scheduler.queue import SCRIPTS, Lease
from scheduler.scripts import Script
from workers.controllers.keda.scaledjob.names import ScaledJobNames
from workers.decision import claim_names
from workers.handoff import readings
from workers.runtime.leases import LeaseKeeper


def take_out(name: str) -> None:
    """Takes a fence of `FENCES` out. Raises KeyError for another name, and ValueError if the fence stands elsewhere."""
    FENCES[name]()


def _rewrite(script: Script, before: str, after: str) -> None:
    if before not in script.text:
        raise ValueError(f"the script has no {before!r}")
    script.__init__(script.text.replace(before, after), ours=script._ours)  # type: ignore[misc]


def _pushes() -> None:
    """An event that was pushed before is taken again."""
    _rewrite(group_commit._PUSH, "redis.call('ZSCORE', seen, event.digest) ~= false", "false")
    _rewrite(group_commit._PUSH, "redis.call('ZADD', seen, 'NX', now, event.digest) == 1", "true")
    _rewrite(intake.ACCEPT, "if window == 0 or remembered == 0 then return true end", "if true then return true end")


def _job_names() -> None:
    """A Job of a reading has another name each time that it is decided on."""
    numbers = itertools.count(random.randrange(10**6, 10**8) * 1000)
    ScaledJobNames.name = lambda names, _: f"{names.prefix}{next(numbers) + time.time_ns() % 10**6 * 10**11}"  # type: ignore[method-assign]


def _claim_names() -> None:
    """A Job of a claim has another name each time."""
    claimed = claim_names.claimed
    claim_names.claimed = lambda *claim: f"{claimed(*claim)[:55]}-{time.time_ns() % 10**6}"  # type: ignore[assignment]


def _lease_deadline() -> None:
    """A process does not look at its clock before it writes."""

    def check(_keeper: LeaseKeeper, _lease: Lease) -> None:
        return

    LeaseKeeper.check = check  # type: ignore[method-assign]


def _lease_token() -> None:
    """An outcome counts, whoever holds the key."""
    for finish in (SCRIPTS["finish"], readings._STORE_AND_FINISH._script):
        _rewrite(finish, "if holders[i] ~= ARGV[at + 1] then", "if not holders[i] then")
    _rewrite(SCRIPTS["renew"], "if holder == ARGV[2 * i + 2] then", "if holder then")


def _orders() -> None:
    """A ledger carries out whatever order arrives."""
    for script in (lists._CLAIM, streams._CLAIM):
        _rewrite(script, "order >= known", "true")


#: What takes each fence out.
FENCES: Mapping[str, Callable[[], None]] = {
    "pushes": _pushes,
    "job-names": _job_names,
    "claim-names": _claim_names,
    "lease-deadline": _lease_deadline,
    "lease-token": _lease_token,
    "orders": _orders,
}
