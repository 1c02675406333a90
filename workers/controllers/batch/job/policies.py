"""podFailurePolicy, which judges a failed pod, and successPolicy, which ends a Job before all indexes succeeded."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, cast

from workers.api.kinds import Object
from workers.controllers.batch.job.indexes import Indexes

Action = Literal["FailJob", "FailIndex", "Ignore", "Count"]

_ACTIONS = ("FailJob", "FailIndex", "Ignore", "Count")


@dataclass(frozen=True, slots=True)
class FailureAction:
    """The verdict of the policy on a failed pod.

    action: None when no rule matches, which is handled as Count. message: why the Job fails; only with FailJob.
    rule: the position of the rule that decided.
    """

    action: Action | None = None
    message: str = ""
    rule: int | None = None

    @property
    def counted(self) -> bool:
        """True if the failure counts, in the status and towards the limits."""
        return self.action != "Ignore"


NO_MATCH = FailureAction()


def judge_failure(policy: Object | None, pod: Object) -> FailureAction:
    """Returns the verdict of the first matching rule on a failed pod. A rule with an unknown action is skipped."""
    for position, rule in enumerate((policy or {}).get("rules") or ()):
        action = rule.get("action")
        if action not in _ACTIONS or (match := _match(rule, pod)) is None:
            continue
        message = f"{match} matching FailJob rule at index {position}" if action == "FailJob" else ""
        return FailureAction(cast(Action, action), message, position)
    return NO_MATCH


def _match(rule: Object, pod: Object) -> str | None:
    """Returns the matching property of the pod as a message, or None if the rule does not match."""
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
    """Returns the first container whose exit code meets the requirement, and the code. Exit code 0 never matches."""
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


def judge_success(policy: Object | None, completed: Indexes, completions: int) -> str | None:
    """Returns a message with the rule that the completed indexes meet, or None. Without any success no rule is met.

    completions: indexes of a rule beyond them, of a Job that shrank, are not asked for.
    """
    if not completed:
        return None
    for position, rule in enumerate((policy or {}).get("rules") or ()):
        if _meets(rule, completed, completions):
            return f"Matched rules at index {position}"
    return None


def _meets(rule: Object, completed: Indexes, completions: int) -> bool:
    """True if all indexes of the rule are completed, or succeededCount of them; a rule without indexes counts any."""
    text, count = rule.get("succeededIndexes"), rule.get("succeededCount")
    if text is None:
        return count is not None and len(completed) >= count
    if not (required := Indexes.parse(text, completions)):
        return False
    done = required & completed
    return done == required or (count is not None and len(done) >= count)
