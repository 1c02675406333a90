"""A home that another user made, can change, or filled with links is refused before anything is read or written."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from deploy.local import broker, home, private_files
from deploy.local.apiserver.http import token as auth
from deploy.local.home import Home
from deploy.local.supervisor import guard
from tests.support.tables import cases
from workers.errors import UserError

Spoil = Callable[[Path], object]


def linked(name: str) -> Spoil:
    """A link to a file of the user in the place of a file of the home."""

    def spoil(root: Path) -> None:
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).unlink(missing_ok=True)
        (root / name).symlink_to(root.parent / "precious")

    return spoil


def wide(name: str, mode: int = 0o644) -> Spoil:
    def spoil(root: Path) -> None:
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("planted")
        (root / name).chmod(mode)

    return spoil


def foreign(_: Path) -> None:
    """Everything belongs to another user, as seen by this process."""
    os.geteuid = lambda: 4711


SPOILT = {
    "a folder that others may change": (lambda root: root.chmod(0o777), "home: others may change it .mode 0777"),
    "a folder of another user": (foreign, "home: belongs to another user"),
    **{
        f"{name} is a link": (linked(name), f"{name}: is a symbolic link")
        for name in ("token", "broker.url", "kubeconfig", "lock", "logs", "logs/beat.log", "parts/beat", "ready/beat")
    },
    **{
        f"others may read {name}": (wide(name), rf"{name}: others may read or change it .mode 0644")
        for name in ("token", "broker.url", "kubeconfig", "apiserver.key")
    },
}


@cases(SPOILT)
def test_a_home_that_cannot_be_trusted_is_refused(
    spoil: Spoil, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "precious").write_text("mine")
    root = tmp_path / "home"
    root.mkdir(mode=0o700)
    monkeypatch.setattr(os, "geteuid", os.geteuid)
    spoil(root)
    with pytest.raises(UserError, match=message), home.owned(Home(root)):
        pass
    assert (tmp_path / "precious").read_text() == "mine"


def test_a_home_that_others_may_read_is_taken_and_its_files_are_private(tmp_path: Path) -> None:
    root = tmp_path / "home"
    root.mkdir(mode=0o755)
    with home.owned(Home(root)):
        private_files.write(root / "broker.url", "redis://:secret@h/0\n")
    assert (root / "broker.url").stat().st_mode & 0o777 == 0o600
    assert Home(root).broker_url() == "redis://:secret@h/0"


#: The functions that read or replace a file of the home by themselves.
USES: dict[str, tuple[str, Spoil]] = {
    "the API server's token": ("token", lambda root: auth.token(root / "token")),
    "the broker's configuration": ("valkey.conf", broker.prepare),
    "the broker's address": ("broker.url", lambda root: Home(root).broker_url()),
}
PLANTED = {
    **{f"{what}, a link": (linked(name), use, "symbolic link") for what, (name, use) in USES.items()},
    **{f"{what}, wide": (wide(name), use, "others may read") for what, (name, use) in USES.items()},
    "the sign of a start, a link": (linked("starting"), lambda root: guard.hold(root / "starting"), "symbolic link"),
    "the lock, a link": (linked("lock"), lambda root: guard.hold(root / "lock"), "symbolic link"),
}


@cases(PLANTED)
def test_a_file_of_the_home_is_checked_where_it_is_used(spoil: Spoil, use: Spoil, message: str, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    root = tmp_path / "home"
    root.mkdir()
    spoil(root)
    with pytest.raises((UserError, OSError), match=message):
        use(root)
    assert (tmp_path / "precious").read_text() == "mine"


def test_a_private_file_replaces_a_link_and_a_planted_draft(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    for name in ("file", f"file.{os.getpid()}.new"):
        (tmp_path / name).symlink_to(tmp_path / "precious")
    private_files.write(tmp_path / "file", "new")
    assert (tmp_path / "precious").read_text() == "mine"
    assert private_files.read(tmp_path / "file") == "new"
    for nothing in (tmp_path / "missing", tmp_path / "file" / "below"):
        assert private_files.read(nothing) is None


def test_a_command_waits_while_a_run_starts_and_no_longer(tmp_path: Path) -> None:
    the_home, begun = Home(tmp_path), threading.Event()
    assert not home.await_start(the_home, begun.set), "no run was ever here"
    answers: list[bool] = []
    waiting = threading.Thread(target=lambda: answers.append(home.await_start(the_home, begun.set)), daemon=True)
    with home.starting(the_home) as is_up:
        waiting.start()
        assert begun.wait(60)
        assert waiting.is_alive()
        is_up()
        waiting.join(60)
        assert answers == [True]
        assert not home.await_start(the_home, begun.set), "it is up"


def test_a_run_that_ends_while_it_starts_lets_commands_go_on(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="full"), home.starting(Home(tmp_path)):
        raise OSError("full")
    assert not home.await_start(Home(tmp_path), pytest.fail)


def test_of_two_runs_that_start_the_second_leaves_the_first_ones_sign(tmp_path: Path) -> None:
    noted: list[str] = []
    with home.starting(Home(tmp_path)) as is_up:
        with home.starting(Home(tmp_path)):
            pass

        def begun() -> None:
            noted.append("waiting")
            is_up()

        assert home.await_start(Home(tmp_path), begun)
    assert noted == ["waiting"]


def test_a_start_in_no_folder_is_left_to_the_owner_to_report(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with home.starting(Home(tmp_path / "file" / "home")) as is_up:
        is_up()
    with pytest.raises(UserError, match="Not a directory"), home.owned(Home(tmp_path / "file" / "home")):
        pass
