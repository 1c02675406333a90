"""What a container runs, and whether there is anything to run."""

from pathlib import Path

import pytest

from deploy.local.image_commands import Images
from deploy.local.kubelet.containers import console, termination_messages
from deploy.local.kubelet.pods import recipe
from tests.support.tables import cases
from tests.unit.kubelet.factories import pod
from workers.api.kinds import Object

IMAGES = Images.of(["mine=run '$(A)'", "inside=bin/run"])


@cases(
    ("its own words, expanded", {"command": ["echo", "$(A)"], "args": ["$$(A)"]}, "echo a $(A)"),
    ("an image's words as they are", {"args": ["$(A)"]}, "run $(A) a"),
)
def test_the_command_is(container: Object, words: str, tmp_path: Path) -> None:
    main = {"name": "main", "image": "mine", "env": [{"name": "A", "value": "a"}], **container}
    assert (
        " ".join(recipe.compose(pod(main), main, IMAGES, {}, {}, tmp_path, tmp_path, isolated=False).command) == words
    )


@cases(
    ("nothing is wrong", {"command": ["x"]}, {"image": "busybox"}, {}),
    ("no command", {"image": "setup"}, {"image": "nginx"}, {"i": "no command", "main": "no command"}),
    ("no program", {"image": "busybox"}, {"image": "mine"}, {"main": "no program run"}),
    ("a PATH of its own", {"image": "busybox"}, {"image": "mine", "env": [{"name": "PATH", "value": "/x"}]}, {}),
    ("a program of its working directory", {"image": "busybox"}, {"image": "inside"}, {}),
    ("a PATH from elsewhere", {"image": "busybox"}, {"image": "mine", "envFrom": [{"configMapRef": {}}]}, {}),
)
def test_a_pod_does_not_start_if(
    init: Object, main: Object, problems: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "sh").touch(mode=0o700)
    body = pod({"name": "main", **main}, init=({"name": "i", **init},))
    found = recipe.problems(body, IMAGES, recipe.KnownPrograms())
    assert found.keys() == problems.keys()
    assert all(text.startswith(problems[name]) for name, text in found.items())


def test_a_program_is_looked_up_once_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    now = 0.0
    programs = recipe.KnownPrograms(lambda: now)
    assert not programs.has("tool")
    (tmp_path / "tool").touch(mode=0o700)
    now = 0.9
    assert (programs.has("tool"), programs.has("other")) == (False, False)
    now = 1.0
    assert programs.has("tool")
    (tmp_path / "tool").unlink()
    now = 1.9
    assert programs.has("tool")
    now = 2.0
    assert not programs.has("tool")


@cases(
    ("nothing", {}, ("", False, False)),
    ("input", {"stdin": True}, (console.INPUT, True, False)),
    ("input of one client", {"stdin": True, "stdinOnce": True}, (console.INPUT, True, True)),
    ("a terminal that nobody types at", {"tty": True, "stdinOnce": True}, (console.TERMINAL, False, False)),
    ("a terminal", {"stdin": True, "tty": True}, (console.TERMINAL, True, False)),
)
def test_a_container_reads(container: Object, wanted: tuple[str, bool, bool], tmp_path: Path) -> None:
    main = {"name": "main", "image": "mine", **container}
    made = recipe.compose(pod(main), main, IMAGES, {}, {}, tmp_path, tmp_path, isolated=False)
    assert (made.reads, made.takes_input, made.once) == wanted
    assert made.env.get("TERM") == ("xterm" if container.get("tty") else None)


def test_variables_of_the_cluster_may_be_used_and_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(termination_messages, "DEFAULT", str(tmp_path / "message"))
    env = [{"name": "URL", "value": "$(WEB_SERVICE_HOST):$(WEB_SERVICE_PORT)"}, {"name": "OWN", "value": "mine"}]
    main = {"name": "main", "image": "mine", "env": env}
    given = {"WEB_SERVICE_HOST": "127.0.0.1", "WEB_SERVICE_PORT": "8080", "OWN": "theirs"}
    made = recipe.compose(pod(main), main, IMAGES, {}, {}, tmp_path, tmp_path, isolated=True, given=given)
    assert (made.env["URL"], made.env["OWN"], made.env["WEB_SERVICE_HOST"]) == ("127.0.0.1:8080", "mine", "127.0.0.1")
