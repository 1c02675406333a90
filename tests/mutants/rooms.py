"""The rooms whose mutants are tried, and the tests that must notice them."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

Member = TypeVar("Member")


@dataclass(frozen=True)
class Room:
    """folder: of the source, relative to the checkout. tests: what pytest is given; the fastest first."""

    folder: str
    tests: tuple[str, ...]

    @property
    def is_lua(self) -> bool:
        """Returns whether the room holds scripts of the broker."""
        return self.folder.endswith("/lua")

    @property
    def package(self) -> str:
        """Returns the first part of the folder's name."""
        return self.folder.partition("/")[0]

    def sample(self, known: Sequence[Member], number: int, seed: int) -> Sequence[Member]:
        """Returns so many of the mutants that are known; the same ones whichever other rooms are tried."""
        return random.Random(f"{seed} {self.folder}").sample(known, min(number, len(known)))


def matching(names: Sequence[str]) -> Sequence[Room]:
    """Returns the rooms that are meant: a whole name means one room, a start of names several; no name means all."""
    whole = {room.folder for room in ROOMS}.intersection(names)
    starts = tuple(name for name in names if name not in whole)
    return [room for room in ROOMS if not names or room.folder in whole or (starts and room.folder.startswith(starts))]


def _controller(name: str) -> Room:
    return Room(f"workers/controllers/{name}", (f"tests/unit/controllers/{name}",))


ROOMS = (
    *map(_controller, ("batch/cronjob", "batch/job", "apps", "keda/scaledjob", "keda/scaledobject")),
    *map(_controller, ("volcano/job", "volcano/jobflow", "volcano/podgroup")),
    Room("workers/controllers/eventjob", ("tests/unit/controllers/eventjob",)),
    Room("workers/controllers/claims", ("tests/unit/controllers/keda/scaledjob", "tests/unit/controllers/eventjob")),
    Room("workers/events", ("tests/unit/events",)),
    Room(
        "workers/controllers/volcano/queue",
        tuple(f"tests/unit/controllers/volcano/test_{name}.py" for name in ("queues", "membership", "commands")),
    ),
    Room("workers/admission", ("tests/unit/admission",)),
    Room("workers/formula", ("tests/unit/controllers/keda/scaledobject", "tests/unit/admission/test_scaledobject.py")),
    Room("workers/flows", ("tests/unit/controllers/volcano/jobflow", "tests/unit/admission", "tests/unit/api")),
    Room(
        "workers/decision",
        (
            *(f"tests/unit/workers/{name}" for name in ("decision", "handoff", "cache/test_followed.py", "reconcile")),
            *(f"tests/unit/controllers/{name}" for name in ("keda/scaledjob", "eventjob")),
        ),
    ),
    Room("workers/handoff", ("tests/unit/workers/handoff",)),
    Room("scalers/triggers", ("tests/unit/scalers/triggers",)),
    Room(
        "scalers/polling",
        (
            "tests/unit/scalers/polling",
            *(f"tests/integration/scalers/test_{name}.py" for name in ("polling", "many_triggers", "claim_polls")),
            *(f"tests/integration/scalers/test_{name}.py" for name in ("claims_of_polls", "event_jobs")),
        ),
    ),
    Room("scalers/deliveries", ("tests/unit/scalers/deliveries",)),
    Room(
        "scalers/sources/events",
        ("tests/unit/scalers/sources/test_push_parameters.py", "tests/integration/scalers/test_push.py"),
    ),
    Room("scheduler/cron", ("tests/unit/scheduler",)),
    Room(
        "scheduler/lua",
        (
            "tests/unit/scheduler/test_lane_transcripts.py",
            *(f"tests/unit/scheduler/test_{name}.py" for name in ("queue", "fairness", "last_runs", "scripts")),
            *(f"tests/unit/workers/test_{name}.py" for name in ("unreadable", "older_data")),
            "tests/unit/scheduler/test_format_check.py",
            "tests/unit/workers/cache/test_withdrawn_marks.py",
        ),
    ),
    Room(
        "workers/lua",
        (
            *(
                f"tests/unit/workers/{name}"
                for name in ("cache/test_store_transcripts.py", "test_script_transcripts.py")
            ),
            *(f"tests/unit/workers/{name}" for name in ("cache", "handoff", "reconcile")),
        ),
    ),
    Room(
        "scalers/lua",
        (
            "tests/unit/scalers/deliveries/test_delivery_transcripts.py",
            "tests/integration/scalers/test_claim_transcripts.py",
            "tests/unit/scalers/gateway/test_push_transcripts.py",
            *("tests/unit/scalers/deliveries", "tests/unit/scalers/gateway/test_push_events_script.py"),
            "tests/unit/scalers/gateway/test_group_commit.py",
            *(f"tests/integration/scalers/test_{name}.py" for name in ("push", "claims", "event_jobs")),
            *(f"tests/integration/scalers/sources/test_{name}.py" for name in ("celery", "redis_lists")),
        ),
    ),
)
