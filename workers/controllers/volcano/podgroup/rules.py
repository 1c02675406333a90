"""What the admission of gangs takes from the settings."""

from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class GangRules:
    """overcommit: how many times what the nodes have may be promised; 1 on clusters whose scheduler knows no gangs.

    patience: how long an admitted group may stay without enough pods that have a node; 0 is for ever. overtaking: how
    long others may go past a group that waits for more room than they need; 0 is for ever.
    """

    overcommit: Fraction = Fraction(1)
    patience: timedelta = timedelta(minutes=5)
    overtaking: timedelta = timedelta(minutes=10)


DEFAULT = GangRules()
