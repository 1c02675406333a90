"""podFailurePolicy: what one failed pod means for its Job."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, cast

from workers.api.kinds import Object

Action = Literal["FailJob", "FailIndex", "Ignore", "Count"]

_ACTIONS = ("FailJob", "FailIndex", "Ignore", "Count")


@dataclass(frozen=True, slots=True)
class FailureAction:
    """What the policy says of a failed pod.

    action: None when no rule matches, which is handled as Count. message: why the Job fails; only with FailJob.
    rule: the position of the rule that decided.
    """

    action: Action | None = None
    message: str = ""
    rule: int | None = None

    @property
    def counted(self) -> bool:
        """Whether the failure counts, in the status and towards the limits."""
        return self.action != "Ignore"


NO_MATCH = FailureAction()


def judge(policy: Object | None, pod: Object) -> FailureAction:
    """The verdict of the first rule that matches a pod that has failed. A rule with an unknown action is skipped."""
    for position, rule in enumerate((policy or {}).get("rules") or ()):
        action = rule.get("action")
        if action not in _ACTIONS or (match := _match(rule, pod)) is None:
            continue
        message = f"{match} matching FailJob rule at index {position}" if action == "FailJob" else ""
        return FailureAction(cast(Action, action), message, position)
    return NO_MATCH


def _match(rule: Object, pod: Object) -> str | None:
    """What about the pod matches the rule, in words, or None."""
    status = pod.get("status") or {}
    name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    if (requirement := rule.get("onExitCodes")) is not None:
        containers = [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]
        if (found := _failed_container(requirement, containers)) is None:
            return None
        container, code = found
        return f"Container {container} for pod {name} failed with exit code {code}"
    patterns = {(each.get("type"), each.get("status") or "True") for each in rule.get("onPodConditions") or ()}
    for condition in status.get("conditions") or ():
        if (condition.get("type"), condition.get("status")) in patterns:
            return f"Pod {name} has condition {condition['type']}"
    return None


def _failed_container(requirement: Object, containers: Iterable[Object]) -> tuple[str, int] | None:
    """The first container whose exit code meets the requirement, and that code. 0 is no failure and never does."""
    only, operator = requirement.get("containerName"), requirement.get("operator")
    codes = requirement.get("values") or ()
    for container in containers:
        terminated = (container.get("state") or {}).get("terminated") or {}
        code = terminated.get("exitCode") or 0
        if code == 0 or (only is not None and container.get("name") != only):
            continue
        if (operator == "In" and code in codes) or (operator == "NotIn" and code not in codes):
            return container.get("name") or "", code
    return None
