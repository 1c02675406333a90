"""Compatibility flags: KEDA's behavior where Penstock's differs, enabled by name for all ScaledJobs."""

from typing import Literal

#: poll-counting: `default` and `accurate` create Jobs once per poll, count the Jobs that existed when the poll began,
#: and ignore those that ended since. last-active-time: `lastActiveTime` is rewritten with every active decision.
#: unknown-parameters: unknown metadata of a trigger are ignored instead of rejected.
#: unset-variables: a parameter from a variable that the container does not set counts as absent instead of rejected.
Quirk = Literal["poll-counting", "last-active-time", "unknown-parameters", "unset-variables"]
Quirks = frozenset[Quirk]

NONE: Quirks = frozenset()
