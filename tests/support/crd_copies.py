"""The CustomResourceDefinitions of our kinds for modules of tests that read them while they are imported.

Every process of a parallel run imports all tests, and to make the definitions from the models takes a second each time.
"""

import json
from functools import cache
from typing import Any

from workers.api import crds


def crd_copies() -> list[Any]:
    """Returns what `crds.all_crds` does, the caller's own to change."""
    found: list[Any] = json.loads(_made())
    return found


@cache
def _made() -> str:
    return json.dumps(crds.all_crds())
