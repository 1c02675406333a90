"""The commands of images: which image is meant, and what its containers run."""

from typing import Any

import pytest

from deploy.local import image_commands
from deploy.local.image_commands import ImageCommand, Images
from tests.support.tables import cases, for_each
from workers.errors import UserError

IMAGES = Images.of(
    ["nginx=| nginx -g 'daemon off;'", "ghcr.io/me/worker:2=celery -A app worker | -Q 'a,b'", "node=nodejs"]
)


@cases(
    ("a name", "python", "python"),
    ("a tag", "python:3.12-slim", "python"),
    ("a digest", "python:3@sha256:0123", "python"),
    ("a registry", "docker.io/library/python:3", "python"),
    ("a port", "localhost:5000/team/worker:1", "team/worker"),
    ("this machine", "localhost/worker", "worker"),
    ("an owner", "valkey/valkey:8", "valkey/valkey"),
    ("nothing", "", ""),
)
def test_the_repository_of(image: str, name: str) -> None:
    assert image_commands.repository(image) == name


@cases(
    ("the default command", "python:3", {}, "python3"),
    ("arguments in its place", "python:3", {"args": ["python", "x.py"]}, "python x.py"),
    ("a command in place of all", "python:3", {"command": ["a"], "args": ["b"]}, "a b"),
    ("a command alone", "nginx", {"command": ["a"]}, "a"),
    ("options for the shell", "bash:5", {"args": ["-c", "date"]}, "bash -c date"),
    ("another program", "bash", {"args": ["date"]}, "date"),
    ("options for the server", "docker.io/library/redis:7", {"args": ["--port", "0"]}, "redis-server --port 0"),
    ("an entrypoint and a command", "ghcr.io/me/worker", {}, "celery -A app worker -Q a,b"),
    ("arguments after the entrypoint", "mirror.test/me/worker:1", {"args": ["-Q", "c"]}, "celery -A app worker -Q c"),
    ("a command that is only a default", "nginx", {"args": ["nginx-debug"]}, "nginx-debug"),
    ("a script of the image's own language", "circleci/node", {"args": ["x.js"]}, ""),
    ("an entry in place of a known image", "node:22", {"args": ["x.js"]}, "nodejs x.js"),
    ("an unknown image", "postgres", {"args": ["-p", "1"]}, ""),
)
def test_a_container_runs(image: str, more: dict[str, Any], words: str) -> None:
    assert " ".join(IMAGES.words({"name": "main", "image": image, **more})) == words


@cases(
    ("a command of its own", {"image": "postgres", "command": ["x"]}, None),
    ("a known image", {"image": "busybox"}, None),
    (
        "an unknown image",
        {"image": "h/postgres:1"},
        "no command: images are not run here; name a command in the "
        "container, or that of the image by `penstock up --images h/postgres=COMMAND`",
    ),
    (
        "a known image without its program",
        {"image": "redis", "args": ["--port", "0"]},
        "no program redis-server, which the image redis stands for here: install it, or name another command by "
        "`penstock up --images redis=COMMAND`",
    ),
)
def test_a_container_has_nothing_to_run(container: dict[str, Any], problem: str | None) -> None:
    assert Images.of().problem(container, {"sh"}.__contains__) == problem


def test_a_program_is_only_judged_by_those_who_can() -> None:
    assert Images.of().problem({"image": "redis"}) is None


@for_each("nginx", "=nginx", "nginx=", "nginx= | ", "nginx=sh 'x")
def test_an_entry_is_refused(text: str) -> None:
    with pytest.raises(UserError, match=r"^--images .*(must read IMAGE=COMMAND|No closing quotation)"):
        image_commands.entry(text)


def test_a_bar_inside_a_script_is_part_of_it() -> None:
    assert image_commands.entry("x=sh -c 'a | b'") == ("x", ImageCommand(("sh", "-c", "a | b")))
