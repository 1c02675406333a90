"""Writes the files of a release: ``python -m deploy.release [FOLDER]``, by default dist/penstock-VERSION.

It runs in a checkout without changes, at the commit that the version's tag names.
"""

import subprocess
import sys
from pathlib import Path

from deploy.release import artifacts, tools
from deploy.release.checkout import Release
from workers.errors import UserError


def main() -> int:
    """Makes the release of the current folder and prints its files; 1 with the reason if it is refused."""
    try:
        release = Release.of(Path.cwd())
        folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("dist", f"penstock-{release.version}")
        files = artifacts.make(release, tools.environment(release.root))
    except UserError as refused:
        print(f"release: {refused}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as failed:
        print(f"release: {failed.cmd[0]} ended with {failed.returncode}", file=sys.stderr)
        return 1
    artifacts.write(files, folder)
    print(f"Penstock {release.version} of commit {release.revision}, in {folder}:")
    for name, content in sorted(files.items()):
        print(f"  {name:44} {len(content):>10,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
