"""Known vulnerabilities of what an installation brings: `python -m tests.packaging.audit` asks for them.

pip-audit finds none, too, where it could ask for nothing: this program says so in large letters, and does not fail.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from deploy.release import tools
from tests.support.paths import ROOT

#: Seconds for the whole lock.
PATIENCE = 300.0


def verdict(answer: Mapping[str, Any] | None) -> tuple[int, Sequence[str]]:
    """Returns an exit code and lines for pip-audit's answer; None stands for one that could not be read."""
    if answer is None:
        return 0, _unknown("pip-audit gave no answer")
    known = answer["dependencies"]
    judged = [each for each in known if "skip_reason" not in each]
    found = [
        f"{each['name']} {each['version']}: {one['id']}, mended in {', '.join(one['fix_versions']) or 'no version'}"
        for each in judged
        for one in each["vulns"]
    ]
    if found:
        return 1, found
    if not known or len(judged) < len(known):
        missing = ", ".join(sorted(each["name"] for each in known if "skip_reason" in each)[:3])
        return 0, _unknown(f"{len(known) - len(judged)} of {len(known)} packages were NOT judged ({missing}, ...)")
    return 0, [f"audit: no known vulnerability in {len(known)} packages"]


def _unknown(why: str) -> Sequence[str]:
    line = "*" * 85
    return (
        line,
        "** NO AUDIT HERE: the list of known vulnerabilities could not be had, or not whole.",
        f"** {why}",
        line,
    )


def main() -> int:
    """Asks about every package of requirements.lock; 1 if one has a known vulnerability."""
    words = (tools.environment(ROOT).program("pip-audit"), "--requirement", str(ROOT / "requirements.lock"))
    options = ("--require-hashes", "--disable-pip", "--timeout", "5", "--format", "json", "--progress-spinner", "off")
    try:
        done = subprocess.run((*words, *options), capture_output=True, text=True, timeout=PATIENCE)
        answer = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, json.JSONDecodeError):
        answer = None
    code, lines = verdict(answer)
    print("\n".join(lines))
    return code


if __name__ == "__main__":
    sys.exit(main())
