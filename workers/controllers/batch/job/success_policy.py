"""successPolicy: when an Indexed Job has succeeded before all its indexes have."""

from workers.api.kinds import Object
from workers.controllers.batch.job.indexes import Indexes


def met(policy: Object | None, completed: Indexes) -> str | None:
    """The message that tells which rule the completed indexes meet, or None. Before any success no rule is met."""
    if not completed:
        return None
    for position, rule in enumerate((policy or {}).get("rules") or ()):
        if _meets(rule, completed):
            return f"Matched rules at index {position}"
    return None


def _meets(rule: Object, completed: Indexes) -> bool:
    """All of the rule's indexes, or as many of them as it asks for; without indexes, as many of any."""
    text, count = rule.get("succeededIndexes"), rule.get("succeededCount")
    if text is None:
        return count is not None and len(completed) >= count
    if not (required := Indexes.parse(text)):
        return False
    done = required & completed
    return done == required or (count is not None and len(done) >= count)
