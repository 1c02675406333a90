"""The CustomResourceDefinitions of our kinds for modules of tests that read them while they are imported.

Every process of a parallel run imports all tests, and to make the definitions from the models takes half a second each
time. These are read from deploy/crds, which tests/unit/api/test_crds.py compares with the models.
"""

import json
from functools import cache
from typing import Any

import yaml

from tests.support.paths import ROOT


def crd_copies() -> list[Any]:
    """Returns what `crds.all_crds` does in another order, the caller's own to change."""
    found: list[Any] = json.loads(_read())
    return found


@cache
def _read() -> str:
    files = sorted((ROOT / "deploy" / "crds").iterdir())
    return json.dumps([yaml.load(file.read_text(), yaml.CSafeLoader) for file in files])
