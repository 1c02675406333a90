"""What a plugin is: something that is made for a job as a whole, and something that is done to each of its pods."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from workers.api.kinds import Object
from workers.api.volcano.arguments import Value, parse
from workers.api.volcano.job import Job, Task
from workers.controllers.volcano.job.names import Site
from workers.errors import UserError
from workers.reconcile.plan import Create


class PluginError(UserError):
    """A job cannot be run with the plugins it asks for; the message names the plugin and what is missing."""


@dataclass(frozen=True, slots=True)
class PodSlot:
    """The place of one pod: task and index in it, of which job, on what kind of cluster."""

    job: Job
    site: Site
    task: Task
    index: int


class Plugin(ABC):
    """One plugin of one job. remark: what is wrong with its arguments, those before it being kept."""

    name: ClassVar[str]
    #: The arguments there are, and what they are when nobody gives them.
    defaults: ClassVar[Mapping[str, Value]] = {}
    #: Whether `status.controlledResources` tells of it.
    recorded: ClassVar[bool] = True

    def __init__(self, arguments: Sequence[str] = ()) -> None:
        self.arguments, self.remark = parse(arguments, self.defaults)

    def text(self, name: str) -> str:
        """A text among the arguments."""
        return str(self.arguments[name])

    def number(self, name: str) -> int:
        """A number among the arguments."""
        return int(self.arguments[name])

    def objects(self, job: Job, site: Site) -> tuple[Create, ...]:  # noqa: ARG002 - most make nothing
        """What is made for the job before its pods. Raises PluginError for a job that it cannot serve."""
        return ()

    @abstractmethod
    def pod(self, slot: PodSlot, pod: Object) -> Object:
        """The pod as this plugin wants it."""
