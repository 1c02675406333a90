"""The rooms whose mutants are tried, and the tests that must notice them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Room:
    """folder: of the source, relative to the checkout. tests: what pytest is given; the fastest first."""

    folder: str
    tests: tuple[str, ...]

    @property
    def is_lua(self) -> bool:
        """Returns whether the room holds scripts of the broker."""
        return self.folder.endswith("/lua")


def _controller(name: str) -> Room:
    return Room(f"workers/controllers/{name}", (f"tests/unit/controllers/{name}",))


ROOMS = (
    *map(_controller, ("batch/cronjob", "batch/job", "apps", "keda/scaledjob", "keda/scaledobject")),
    *map(_controller, ("volcano/job", "volcano/jobflow", "volcano/podgroup")),
    Room("workers/controllers/volcano/queue", ("tests/unit/controllers/volcano",)),
    Room("workers/admission", ("tests/unit/admission",)),
    Room("workers/formula", ("tests/unit/controllers/keda", "tests/unit/api")),
    Room("workers/flows", ("tests/unit/controllers/volcano/jobflow", "tests/unit/admission")),
    Room("workers/decision", ("tests/unit/workers/reconcile", "tests/unit/controllers/keda")),
    Room("scheduler/cron", ("tests/unit/scheduler",)),
    Room("scheduler/lua", tuple(f"tests/unit/scheduler/test_{name}.py" for name in ("queue", "fairness", "scripts"))),
    Room("workers/lua", ("tests/unit/workers", "tests/integration/workers")),
    Room("scalers/lua", ("tests/integration/scalers/sources/test_push.py", "tests/integration/scalers/test_claims.py")),
)
