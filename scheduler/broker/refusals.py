"""Refusals of the broker, in words that say what to do: a demoted master, another node's slot, a command of an ACL.

Some end by themselves: by asking another server, or later.
"""

import re

from redis import exceptions

from scheduler.broker.address import BrokerAddress

#: The commands and what they may touch stand there.
_PAGE = "docs/brokers.md has the rules of the user that Penstock needs"

_COMMAND = re.compile(r"'([^']+)' command")


def is_elsewhere(error: exceptions.ResponseError, address: BrokerAddress) -> bool:
    """Returns True if another server must be asked instead: this one is a replica, or lost the slot of our keys."""
    # Until Redis 7 the error of a script has that of its command in its text.
    if isinstance(error, (exceptions.ReadOnlyError, exceptions.MasterDownError)) or "-READONLY" in str(error):
        return True
    # The answer to a command that waited when the server became a replica.
    if str(error).startswith("UNBLOCKED"):
        return True
    # MOVED is an ASK to redis-py. ASK and TRYAGAIN end when the slot has moved.
    return address.cluster and isinstance(
        error, (exceptions.AskError, exceptions.TryAgainError, exceptions.ClusterDownError)
    )


def is_for_now(error: exceptions.ResponseError) -> bool:
    """Returns True if the server takes no writes now: without memory, replicas or a disk, or while a script runs."""
    return isinstance(error, exceptions.OutOfMemoryError) or str(error).startswith(("NOREPLICAS", "MISCONF", "BUSY "))


def explained(error: exceptions.ResponseError, address: BrokerAddress) -> exceptions.ResponseError:
    """Returns the error, with words of its own where the server's do not say what to do."""
    text = str(error)
    if isinstance(error, exceptions.MovedError) and not address.cluster:
        return exceptions.ResponseError(
            f"{address} is a node of a Redis Cluster, and another one has Penstock's keys: add ?cluster=true to the "
            "broker's URL (docs/brokers.md)"
        )
    if isinstance(error, exceptions.NoPermissionError) or is_of_script(text):
        if text.startswith("the broker's user"):
            return error
        found = _COMMAND.search(text)
        what = f"run {found[1]}" if found else "do that"
        return exceptions.NoPermissionError(
            f"the broker's user {address.user} may not {what} ({text}); {_PAGE}", status_code="NOPERM"
        )
    return error


def is_of_script(text: str) -> bool:
    """Returns True for the answer to a script whose command, or whose key, the user may not use."""
    return "ACL failure in script" in text or "The user executing the script can't" in text
