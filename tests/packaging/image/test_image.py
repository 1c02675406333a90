"""The image: its Dockerfile, and that all of Penstock runs on its files, read-only and as its user."""

import dataclasses
import re
import subprocess

import pytest
from pydantic import SecretStr

from deploy.cli import options
from deploy.cli.main import command_of
from deploy.release import tools
from penstock import __version__
from tests.packaging.image.container import Image
from tests.packaging.image.dockerfile import PATH, Dockerfile
from tests.support.paths import ROOT
from tests.support.tables import for_each
from workers.settings import Settings

pytestmark = pytest.mark.timeout(600)

DOCKERFILE = Dockerfile.read()
#: Names of what belongs into no layer and no variable of an image.
SECRET = re.compile(r"pass(word|wd)?|secret|token|credential|(api|private)_?key", re.IGNORECASE)


def test_the_dockerfile_has_no_findings() -> None:
    hadolint = tools.environment(ROOT).program("hadolint")
    done = subprocess.run((hadolint, "--no-color", str(PATH)), capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_the_base_is_the_builders_choice_and_has_no_default() -> None:
    [base, runtime] = DOCKERFILE.stages[0]
    assert (base.word, base.rest) == ("ARG", "BASE")
    assert (runtime.word, runtime.rest) == ("ARG", "RUNTIME=${BASE}")


def test_no_secret_is_in_the_images_environment_or_in_an_argument() -> None:
    named = [each.rest.partition("=")[0] for each in DOCKERFILE.instructions if each.word == "ARG"]
    named += DOCKERFILE.variables
    assert [name for name in named if SECRET.search(name)] == []
    secret = {options.variable(name) for name, field in Settings.model_fields.items() if field.annotation is SecretStr}
    assert "PENSTOCK_BROKER" in secret
    assert secret & set(named) == set()


def test_the_images_variables_are_settings() -> None:
    assert options.misspelt(DOCKERFILE.variables) == []


def test_the_image_runs_as_a_number_that_is_not_root() -> None:
    assert re.fullmatch(r"[1-9]\d{4}:[1-9]\d{4}", DOCKERFILE.last("USER").rest)
    assert DOCKERFILE.last("ENTRYPOINT").words == ("penstock",)


def test_the_health_check_is_a_command() -> None:
    check = DOCKERFILE.last("HEALTHCHECK").rest.partition("CMD ")[2]
    assert check == '["penstock", "healthy"]'
    command_of("healthy").make_context("healthy", [])


def test_the_context_of_a_build_is_the_wheel_and_its_lock() -> None:
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    assert lines == ["*", "!requirements.lock", "!dist/penstock-*.whl"]
    copied = [each.rest for each in DOCKERFILE.stages[1] if each.word == "COPY"]
    assert copied == ["requirements.lock dist/penstock-${VERSION}-py3-none-any.whl ./"]


def test_the_image_has_no_shell_and_no_place_to_write(image: Image) -> None:
    program = """
import os, pathlib, shutil
assert os.getuid() == 65532 and os.getpid() == 1, (os.getuid(), os.getpid())
assert not any(map(shutil.which, ("sh", "bash", "gcc", "cc", "pip", "openssl"))), os.environ["PATH"]
for place in ("/", "/opt/penstock", "/home/penstock", "/etc"):
    try:
        pathlib.Path(place, "new").touch()
    except OSError as error:
        assert error.errno == 30, error
    else:
        raise SystemExit(f"{place} can be written to")
pathlib.Path("/tmp/new").touch()
"""
    done = dataclasses.replace(image, entrypoint=("python",)).run("-c", program)
    assert done.returncode == 0, done.stderr


def test_every_module_of_ours_is_compiled_in_the_image(image: Image) -> None:
    package = next((image.environment / "lib").glob("python3*/site-packages/penstock"))
    modules = {path.relative_to(package).with_suffix("") for path in package.rglob("*.py")}
    compiled = {
        path.parent.parent.relative_to(package) / path.name.partition(".")[0] for path in package.rglob("*.pyc")
    }
    assert len(modules) > 500
    assert modules - compiled == set()


def test_every_command_has_its_help_in_the_image(image: Image) -> None:
    program = """
import io, sys
from contextlib import redirect_stdout
from penstock import _import_path
_import_path.enter()
from deploy.cli.main import LISTED, run
for name in LISTED:
    with redirect_stdout(io.StringIO()) as said:
        code = run([name, "--help"])
    if code or "Usage" not in said.getvalue():
        raise SystemExit(f"{name}: {code} {said.getvalue()}")
print(len(LISTED))
"""
    done = dataclasses.replace(image, entrypoint=("python",)).run("-c", program)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 30


@for_each(
    ("version", f"penstock {__version__}"),
    ("settings", "PENSTOCK_BROKER"),
    ("crds", "keda.sh"),
    ("doctor", "CHECK"),
)
def test_a_command_answers_in_the_image(word: str, said: str, image: Image) -> None:
    done = image.run(word)
    # `doctor` finds that there is no broker.
    assert done.returncode in ((0, 1) if word == "doctor" else (0,)), done.stderr
    assert "Traceback" not in done.stderr
    assert said in done.stdout
