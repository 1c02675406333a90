"""The image's files, made by the Dockerfile's own commands where there is no builder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.release import tools
from penstock import __version__
from tests.packaging.image.container import PATIENCE, Image
from tests.packaging.image.dockerfile import Dockerfile
from tests.support.paths import ROOT

#: uv takes the same options, and a twentieth of the time.
_PIP, _UV = "python3 -m pip --python /opt/penstock/bin/python install --no-compile", "uv pip install --quiet"
#: Puts our folders at the places of the image without a trace on this machine; what else is in /opt and /home stays.
_PLACES = """
set -eu
mount --make-rprivate /
for folder in /opt /home; do
  kept="$SCRATCH/kept$folder"
  mkdir -p "$kept"
  mount --rbind "$folder" "$kept"
  mount -t tmpfs -o mode=0755 places "$folder"
  for one in "$kept"/*; do
    [ -d "$one" ] || continue
    mkdir "$folder/${one##*/}"
    mount --rbind "$one" "$folder/${one##*/}"
  done
done
mkdir -p /opt/penstock
mount --bind "$TARGET" /opt/penstock
"""


def obstacle() -> str | None:
    """Returns the reason for which this machine cannot have a root of ours; None if it can."""
    if os.geteuid():
        return "a root needs root"
    done = subprocess.run(("unshare", "--mount", "--pid", "--fork", "true"), capture_output=True, text=True)
    return done.stderr.strip() or None if done.returncode else None


def made(wheel: Path, scratch: Path) -> Image:
    """The image of a wheel. scratch: an empty folder."""
    if why := obstacle():
        pytest.skip(f"this machine does not allow namespaces: {why}")
    dockerfile = Dockerfile.read()
    context, target = scratch / "context", scratch / "penstock"
    context.mkdir()
    target.mkdir()
    (context / wheel.name).write_bytes(wheel.read_bytes())
    (context / "requirements.lock").write_bytes((ROOT / "requirements.lock").read_bytes())
    # `python3` with pip, as the Dockerfile asks for it; the environment it makes stands on the Python below that.
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    programs = (Path(sys.executable).parent, Path(tools.environment(ROOT).program("uv")).parent)
    variables |= {"PATH": ":".join((*map(str, programs), os.environ["PATH"])), "UV_LINK_MODE": "copy"}
    variables |= {"SCRATCH": str(scratch), "TARGET": str(target), "VERSION": __version__}
    assert dockerfile.build.count(_PIP) == 2, dockerfile.build
    commands = dockerfile.build.replace(_PIP, f"{_UV} --python /opt/penstock/bin/python")
    done = subprocess.run(
        ("unshare", "--mount", "sh", "-c", f"{_PLACES}\n{commands}"),
        cwd=context, env=variables, capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 0, f"{commands}\n{done.stdout}\n{done.stderr}"
    user, _, _ = dockerfile.last("USER").rest.partition(":")
    roots = scratch / "roots"
    roots.mkdir()
    return Image(
        environment=target,
        scratch=roots,
        variables=dockerfile.variables,
        workdir=dockerfile.last("WORKDIR").rest,
        user=int(user),
        entrypoint=dockerfile.last("ENTRYPOINT").words,
    )
