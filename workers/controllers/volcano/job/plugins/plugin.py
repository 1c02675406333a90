"""The interface of a plugin: objects for the job as a whole, and changes of each pod."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from workers.api.kinds import Object
from workers.api.volcano.arguments import Value, parse
from workers.api.volcano.job import Job, Task
from workers.controllers.volcano.job.names import Site
from workers.decision.plan import Create
from workers.errors import UserError


class PluginError(UserError):
    """A job cannot run with its plugins; the message names the plugin and what is missing."""


@dataclass(frozen=True, slots=True)
class PodSlot:
    """One pod to create: job, site, task and index."""

    job: Job
    site: Site
    task: Task
    index: int


class Plugin(ABC):
    """One plugin of one job. remark: the first wrong argument; arguments before it count."""

    name: ClassVar[str]
    #: Arguments with their defaults.
    defaults: ClassVar[Mapping[str, Value]] = {}
    #: True if `status.controlledResources` lists the plugin.
    recorded: ClassVar[bool] = True

    def __init__(self, arguments: Sequence[str] = ()) -> None:
        self.arguments, self.remark = parse(arguments, self.defaults)

    def text(self, name: str) -> str:
        """Returns a text argument."""
        return str(self.arguments[name])

    def number(self, name: str) -> int:
        """Returns a number argument."""
        return int(self.arguments[name])

    def objects(self, job: Job, site: Site) -> tuple[Create, ...]:  # noqa: ARG002 - most make nothing
        """Returns the objects to create before the pods. Raises PluginError for a job that it cannot serve."""
        return ()

    @abstractmethod
    def pod(self, slot: PodSlot, pod: Object) -> Object:
        """Returns the pod with this plugin's changes."""
