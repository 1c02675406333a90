"""The choice of the cluster that a client command connects to."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
import pytest

from deploy.cli import api_connection, options, output
from deploy.local import home, private_files
from scheduler.broker import clients
from tests.support.tables import cases
from tests.unit.cli.conftest import Type
from tests.unit.cli.fake import SCALED_JOB, FakeCluster
from workers.errors import UserError


def kubeconfig(path: Path, *, current: str = "a", **namespaces: str | None) -> Path:
    contexts = "".join(
        f"- name: {name}\n  context: {{cluster: c{f', namespace: {namespace}' if namespace else ''}}}\n"
        for name, namespace in (namespaces or {"a": None}).items()
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"current-context: {current}\ncontexts:\n{contexts}")
    path.chmod(0o600)
    return path


@cases(
    ("the flag wins", {"flag", "variable", "home", "other"}, "flag"),
    ("then the variable", {"variable", "home", "other"}, "variable"),
    ("then the embedded cluster", {"home", "other"}, ".penstock/kubeconfig"),
    ("then what other tools use", {"other"}, None),
    ("nothing at all", set(), None),
)
def test_the_first_that_is_named_is_taken(
    there: set[str], chosen: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "home" in there:
        kubeconfig(tmp_path / ".penstock" / "kubeconfig")
    if "variable" in there:
        monkeypatch.setenv("PENSTOCK_KUBECONFIG", str(kubeconfig(tmp_path / "variable")))
    flag = str(kubeconfig(tmp_path / "flag")) if "flag" in there else None
    environ = {"KUBECONFIG": str(kubeconfig(tmp_path / "other"))} if "other" in there else {"HOME": str(tmp_path)}
    target = api_connection.target(kubeconfig=flag, environ=environ)
    assert target.kubeconfig == (
        Path(flag or tmp_path / chosen) if chosen and chosen[0] != "." else chosen and Path(chosen)
    )


def test_an_empty_variable_names_no_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kubeconfig(tmp_path / ".penstock" / "kubeconfig")
    monkeypatch.setenv("PENSTOCK_KUBECONFIG", "")
    monkeypatch.setenv("PENSTOCK_HOME", "")
    assert api_connection.target().kubeconfig == Path(".penstock/kubeconfig")


@cases(
    ("the current context's", {}, "one"),
    ("the named context's", {"context": "b"}, "two"),
    ("a context without one", {"context": "c"}, "default"),
    ("the flag's", {"context": "b", "namespace": "three"}, "three"),
)
def test_the_namespace_comes_from_the_flag_or_the_context(
    arguments: dict[str, Any], namespace: str, tmp_path: Path
) -> None:
    path = kubeconfig(tmp_path / "k", a="one", b="two", c=None)
    assert api_connection.target(kubeconfig=str(path), **arguments).namespace == namespace


def test_several_files_of_kubeconfig_are_read_in_order(tmp_path: Path) -> None:
    first = kubeconfig(tmp_path / "1", current="b", a="one")
    second = kubeconfig(tmp_path / "2", current="a", b="two", a="hidden")
    environ = {"KUBECONFIG": f"{tmp_path / 'missing'}:{first}:{second}"}
    assert api_connection.target(environ=environ).namespace == "two"
    assert api_connection.target(environ=environ, context="a").namespace == "one"


@cases(
    ("no file", {"kubeconfig": "/no/such"}, "--kubeconfig: no such file: /no/such"),
    ("no context", {"kubeconfig": "k", "context": "z"}, "no context called z; there are a"),
    ("no home", {"home": "/no/such/home", "patient": True}, "--home: no such folder: /no/such/home"),
    ("no YAML", {"kubeconfig": "broken"}, "broken: not a usable kubeconfig"),
    ("another shape", {"kubeconfig": "list"}, "list: not a usable kubeconfig"),
)
def test_a_kubeconfig_that_cannot_be_used_is_named(arguments: dict[str, Any], message: str, tmp_path: Path) -> None:
    kubeconfig(tmp_path / "k")
    (tmp_path / "broken").write_text("a: [")
    (tmp_path / "list").write_text("- a")
    with pytest.raises(UserError, match=message):
        api_connection.target(**arguments)


def embedded(folder: Path, cluster: str = "server: 'https://127.0.0.1:1'", user: str = "token: t") -> Path:
    """The kubeconfig of an embedded cluster, with these fields of its cluster and its user."""
    path = kubeconfig(folder / ".penstock" / "kubeconfig")
    clusters, users = f"clusters: [{{name: c, cluster: {{{cluster}}}}}]", f"users: [{{name: u, user: {{{user}}}}}]"
    path.write_text(f"{path.read_text()}{clusters}\n{users}\n")
    return path


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"user": "exec: {command: ./run-me}"}, r"users\[0\]\.user\.exec: not a field"),
        ({"user": "auth-provider: {name: gcp}"}, r"users\[0\]\.user\.auth-provider: not a field"),
        ({"user": "tokenFile: /home/me/.ssh/id"}, r"users\[0\]\.user\.tokenFile: not a field"),
        ({"user": "client-key: /home/me/key"}, r"users\[0\]\.user\.client-key: not a field"),
        ({"cluster": "server: 'https://127.0.0.1', proxy-url: x"}, r"clusters\[0\]\.cluster\.proxy-url: not a field"),
        ({"cluster": "server: 'https://example.com'"}, "server: https://example.com: not an address of this machine"),
        ({"cluster": "server: 'https://127.0.0.1.example.com'"}, "not an address of this machine"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_the_current_folders_kubeconfig_can_only_name_an_embedded_cluster(
    parts: dict[str, str], message: str, tmp_path: Path
) -> None:
    path = embedded(tmp_path, **parts)
    with pytest.raises(UserError, match=message):
        api_connection.target(environ={})
    # A user who names the file trusts it.
    assert api_connection.target(kubeconfig=str(path), environ={}).kubeconfig == path


@cases(
    (
        "a file that others may read, as after git clone",
        lambda path: path.chmod(0o644),
        r"kubeconfig: others may read or change it \(mode 0644\)",
    ),
    (
        "a folder that others may change",
        lambda path: path.parent.chmod(0o775),
        r"penstock: others may change it \(mode 0775\)",
    ),
    ("a link", lambda path: (path.rename(path.with_name("x")), path.symlink_to("x")), "kubeconfig: is a symbolic link"),
)
def test_a_strangers_kubeconfig_in_the_current_folder_is_refused(spoil: Any, message: str, tmp_path: Path) -> None:
    path = embedded(tmp_path)
    assert api_connection.target(environ={}).source == "the embedded cluster's kubeconfig"
    spoil(path)
    with pytest.raises(UserError, match=message) as refused:
        api_connection.target(environ={"KUBECONFIG": str(kubeconfig(tmp_path / "other"))})
    assert "--kubeconfig" in str(refused.value)


def test_a_strangers_broker_in_the_current_folder_is_refused_and_never_called(tmp_path: Path) -> None:
    path = embedded(tmp_path)
    path.with_name("broker.url").write_text("redis://stranger/0")
    path.with_name("broker.url").chmod(0o644)
    to = api_connection.target(environ={})
    with pytest.raises(UserError, match=r"broker\.url: others may read or change it"):
        api_connection.broker_url(options.load({}), to.homes)


def test_a_folder_that_others_may_change_is_no_matter_where_there_is_no_home(tmp_path: Path) -> None:
    (tmp_path / ".penstock").mkdir(mode=0o777)
    (tmp_path / ".penstock").chmod(0o777)
    elsewhere = kubeconfig(tmp_path / "shared" / "config")
    elsewhere.parent.chmod(0o777)
    assert api_connection.target(environ={"HOME": str(tmp_path)}).kubeconfig is None
    to = api_connection.target(kubeconfig=str(elsewhere), environ={})
    with pytest.raises(UserError, match=r"no broker: --home \.penstock has none"):
        api_connection.broker_url(options.load({}), to.homes)


def with_broker(home: Path, url: str) -> Path:
    """A home with this broker; returns the kubeconfig in it."""
    home.mkdir(mode=0o700)
    private_files.write(home / "broker.url", url)
    return kubeconfig(home / "kubeconfig", current=home.name, **{home.name: None})


@cases(
    ("the setting", {"broker": "redis://set/0"}, {"kubeconfig": "a/kubeconfig"}, "redis://set/0"),
    ("that beside the named kubeconfig", {}, {"kubeconfig": "a/kubeconfig", "home": "b"}, "redis://a/0"),
    ("that of the named home", {}, {"home": "b"}, "redis://b/0"),
    ("that beside the file with the current context", {}, {}, "redis://a/0"),
    ("that beside the file with the named context", {}, {"context": "b"}, "redis://b/0"),
    ("that of the home, for a cluster without one", {}, {"kubeconfig": "real/config", "home": "b"}, "redis://b/0"),
    ("no one's", {}, {"context": "real"}, None),
)
def test_the_broker_belongs_to_the_cluster(
    settings: dict[str, str], flags: dict[str, Any], url: str | None, tmp_path: Path
) -> None:
    files = [with_broker(tmp_path / name, f"redis://{name}/0") for name in "ab"]
    files.append(kubeconfig(tmp_path / "real" / "config", current="real", real=None))
    to = api_connection.target(environ={"KUBECONFIG": ":".join(map(str, files))}, **flags)
    assert api_connection.known_broker(options.load(settings), to.homes) == url


@cases(
    ("another cluster", {"kubeconfig": "real/config"}, "no broker"),
    (
        "another cluster, and the home by name",
        {"kubeconfig": "real/config", "home": ".penstock"},
        "redis://.penstock/0",
    ),
    ("the cluster of the home", {"kubeconfig": ".penstock/kubeconfig"}, "redis://.penstock/0"),
    ("the cluster of the home, which is found", {}, "redis://.penstock/0"),
)
def test_an_embedded_cluster_of_the_current_folder_lends_its_broker_to_no_other(
    flags: dict[str, Any], url: str, tmp_path: Path
) -> None:
    with_broker(tmp_path / ".penstock", "redis://.penstock/0")
    real = kubeconfig(tmp_path / "real" / "config", current="real", real=None)
    to = api_connection.target(environ={"KUBECONFIG": str(real)}, **flags)
    assert (api_connection.known_broker(options.load({}), to.homes) or "no broker") == url


def test_a_broker_that_no_one_names_is_an_error(tmp_path: Path) -> None:
    message = r"no broker: --home \.penstock has none, and neither --broker nor PENSTOCK_BROKER is set"
    with pytest.raises(UserError, match=message):
        api_connection.broker_url(options.load({}), api_connection.target(environ={"HOME": str(tmp_path)}).homes)


@cases(
    ("describe", ["describe", "sj/crunch"]),
    ("explain", ["explain", "sj/crunch"]),
    ("top", ["top", "--once", "-k", "scaledjobs"]),
)
@pytest.mark.parametrize("flag", ["--home", "--kubeconfig"])
def test_the_flags_of_the_cluster_choose_the_broker_that_is_asked(
    words: list[str], flag: str, cluster: FakeCluster, penstock: Type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def client(url: str) -> None:
        asked.append(url)
        raise ConnectionRefusedError("refused")

    monkeypatch.setattr(clients, "client", client)
    cluster.add(SCALED_JOB, "crunch")
    file = with_broker(tmp_path / "h", "redis://h/0")
    file.write_text("{}")
    penstock(*words, flag, str(file.parent if flag == "--home" else file))
    assert set(asked) == {"redis://h/0"}


class Start:
    """A `penstock up` that starts in a home, until `end` is called."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        root.mkdir(mode=0o700)
        self.stack = ExitStack()
        self.is_up = self.stack.enter_context(home.starting(home.Home(root)))
        self.notes: list[str] = []
        self.before_end: Callable[[], object] = lambda: None
        monkeypatch.setattr(output, "note", self.noted)

    def noted(self, text: str) -> None:
        """The command has said that it waits: the start goes on, and ends."""
        self.notes.append(text)
        self.before_end()
        self.stack.close()


def test_a_command_that_comes_while_up_starts_waits_for_its_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path / "other")))
    chosen: list[api_connection.ConnectionTarget] = []

    @click.command()
    @api_connection.cluster_options
    def command(target: api_connection.ConnectionTarget) -> None:
        chosen.append(target)

    start = Start(tmp_path / ".penstock", monkeypatch)
    start.before_end = lambda: embedded(tmp_path)
    command.main([], standalone_mode=False)
    assert [target.kubeconfig for target in chosen] == [Path(".penstock/kubeconfig")]
    assert start.notes == ["waiting for `penstock up`, which is starting in .penstock ..."]


def test_a_start_that_fails_leads_to_no_other_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = {"KUBECONFIG": str(kubeconfig(tmp_path / "other"))}
    Start(tmp_path / ".penstock", monkeypatch)
    with pytest.raises(UserError, match=r"`penstock up` ended before its cluster was up in \.penstock"):
        api_connection.target(environ=other, patient=True)


def test_a_cluster_that_is_named_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = Start(tmp_path / ".penstock", monkeypatch)
    named = kubeconfig(tmp_path / "named")
    assert api_connection.target(kubeconfig=str(named), patient=True).kubeconfig == named
    assert not start.notes
