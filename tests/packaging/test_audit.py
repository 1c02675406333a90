"""The audit tells "none found" from "nothing could be asked"."""

from typing import Any

from tests.packaging.audit import verdict
from tests.support.tables import for_each

GOOD: dict[str, Any] = {"name": "good", "version": "1", "vulns": []}
BAD: dict[str, Any] = {"name": "bad", "version": "1", "vulns": [{"id": "PYSEC-1", "fix_versions": ["2"]}]}
SKIPPED: dict[str, Any] = {"name": "unknown", "skip_reason": "not found"}


@for_each(
    ([GOOD], 0, "no known vulnerability in 1 packages"),
    ([GOOD, BAD], 1, "bad 1: PYSEC-1, mended in 2"),
    ([SKIPPED, BAD], 1, "PYSEC-1"),
    ([GOOD, SKIPPED], 0, "NO AUDIT HERE"),
    ([SKIPPED], 0, "NO AUDIT HERE"),
    ([], 0, "NO AUDIT HERE"),
    (None, 0, "NO AUDIT HERE"),
)
def test_only_packages_that_were_judged_are_called_good(packages: Any, code: int, said: str) -> None:
    answer = None if packages is None else {"dependencies": packages}
    assert verdict(answer)[0] == code
    assert said in "\n".join(verdict(answer)[1])
