"""What a container runs, and whether there is anything to run."""

from pathlib import Path

import pytest

from deploy.local.image_commands import Images
from deploy.local.kubelet.pods import recipe
from tests.unit.kubelet.factories import pod
from tests.unit.tables import cases
from workers.api.kinds import Object

IMAGES = Images.of(["mine=run '$(A)'", "inside=bin/run"])


@cases(
    ("container", "words"),
    {
        "its own words, expanded": ({"command": ["echo", "$(A)"], "args": ["$$(A)"]}, "echo a $(A)"),
        "an image's words as they are": ({"args": ["$(A)"]}, "run $(A) a"),
    },
)
def test_the_command_is(container: Object, words: str, tmp_path: Path) -> None:
    main = {"name": "main", "image": "mine", "env": [{"name": "A", "value": "a"}], **container}
    assert (
        " ".join(recipe.compose(pod(main), main, IMAGES, {}, {}, tmp_path, tmp_path, isolated=False).command) == words
    )


@cases(
    ("init", "main", "problems"),
    {
        "nothing is wrong": ({"command": ["x"]}, {"image": "busybox"}, {}),
        "no command": ({"image": "setup"}, {"image": "nginx"}, {"i": "no command", "main": "no command"}),
        "no program": ({"image": "busybox"}, {"image": "mine"}, {"main": "no program run"}),
        "a PATH of its own": ({"image": "busybox"}, {"image": "mine", "env": [{"name": "PATH", "value": "/x"}]}, {}),
        "a program of its working directory": ({"image": "busybox"}, {"image": "inside"}, {}),
        "a PATH from elsewhere": ({"image": "busybox"}, {"image": "mine", "envFrom": [{"configMapRef": {}}]}, {}),
    },
)
def test_a_pod_does_not_start_if(
    init: Object, main: Object, problems: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "sh").touch(mode=0o700)
    body = pod({"name": "main", **main}, init=({"name": "i", **init},))
    assert recipe.problems(body, IMAGES).keys() == problems.keys()
    assert all(text.startswith(problems[name]) for name, text in recipe.problems(body, IMAGES).items())
