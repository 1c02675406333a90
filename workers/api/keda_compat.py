"""KEDA's behaviour where ours differs, for those who want it as it was: asked for by name, for all ScaledJobs."""

from typing import Literal

#: poll-counting: `default` and `accurate`, too, give one helping per poll, from the Jobs that were there when it began;
#: Jobs that ended since make no difference. last-active-time: rewritten with every active decision.
#: unknown-parameters: metadata that are no parameter of their trigger are ignored instead of refused.
#: unset-variables: a parameter from a variable that the container does not set counts as absent instead of refused.
Quirk = Literal["poll-counting", "last-active-time", "unknown-parameters", "unset-variables"]
Quirks = frozenset[Quirk]

NONE: Quirks = frozenset()
