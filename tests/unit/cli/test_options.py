"""Settings as flags and variables."""

import dataclasses
from pathlib import Path
from typing import Any

import click
import pytest

from deploy.cli import options
from deploy.processes import command_lines
from tests.support.tables import cases, for_each
from workers.errors import UserError
from workers.settings import Settings


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(options.variable(name), raising=False)


def parsed(*arguments: str) -> dict[str, Any]:
    @click.command(cls=options.SettingsCommand)
    def command(flags: dict[str, Any]) -> dict[str, Any]:
        return flags

    return dict(command.main(list(arguments), standalone_mode=False))


def test_every_setting_is_a_flag() -> None:
    names = [name for parameter in options.generated() for name in parameter.opts]
    assert names == [options.flag(name) for name in Settings.model_fields]


@for_each("--log-level [debug|info|warning|error]", "[default: info]", "--keda-quirks NAMES", "--slots N")
def test_the_help_of_a_setting_says_what_it_takes(text: str) -> None:
    with click.Context(click.Command("x"), terminal_width=200) as context:
        records = [option.get_help_record(context) for option in options.generated()]
    assert any(text in " ".join(record) for record in records if record)


def test_only_given_settings_are_passed_on() -> None:
    assert parsed() == {}
    assert parsed("--lease", "30", "--no-wakeups", "--jobs", "all") == {"lease": "30", "wakeups": False, "jobs": "all"}


def test_a_flag_wins_over_a_variable_and_a_variable_over_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_LEASE", "20")
    monkeypatch.setenv("PENSTOCK_SLOTS", "3")
    settings = options.load({"lease": "30", "batch": None})
    assert (settings.lease, settings.slots, settings.batch) == (30.0, 3, 64)


@cases(
    ("nothing is said", {}, {}),
    ("a flag wins", {"PENSTOCK_KUBECONFIG": "variable"}, {"kubeconfig": "flag"}),
    ("a variable", {"PENSTOCK_KUBECONFIG": "variable", "PENSTOCK_CONTEXT": "c", "PENSTOCK_HOME": "h"}, {}),
    ("in small letters", {"penstock_kubeconfig": "variable"}, {}),
    ("another setting that counts", {"PENSTOCK_TIMEOUT": "3"}, {"home": "h"}),
    ("another setting", {"PENSTOCK_LEASE": "20"}, {"context": "c"}),
    ("no setting", {"PENSTOCK_LAESE": "20", "PENSTOCK_TEST_REDIS": "x"}, {"context": "c"}),
    ("an empty flag", {}, {"context": ""}),
    ("an empty variable", {"PENSTOCK_CONTEXT": ""}, {}),
    ("an empty path", {"PENSTOCK_KUBECONFIG": "", "PENSTOCK_HOME": ""}, {}),
)
def test_a_command_that_asks_an_api_server_has_the_settings_of_all(
    variables: dict[str, str], flags: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    found = options.load_of_client({"kubeconfig": None, "context": None, "home": None, **flags})
    settings = options.load(flags)
    assert dataclasses.asdict(found) == {name: getattr(settings, name) for name in dataclasses.asdict(found)}


def test_an_empty_variable_chooses_no_cluster_and_an_empty_flag_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_KUBECONFIG", "")
    monkeypatch.setenv("PENSTOCK_CONTEXT", "")
    monkeypatch.setenv("PENSTOCK_HOME", "")
    settings = options.load()
    assert (settings.kubeconfig, settings.context, settings.home) == (None, None, Path(".penstock"))
    for name in ("kubeconfig", "home"):
        for load in (options.load, options.load_of_client):
            with pytest.raises(UserError, match=f"^--{name}: must not be empty$"):
                load({name: ""})


def test_a_command_that_asks_an_api_server_names_a_wrong_variable_of_any_setting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PENSTOCK_LEASE", "0")
    with pytest.raises(UserError, match=r"^PENSTOCK_LEASE: .*greater than 0.1"):
        options.load_of_client({"kubeconfig": None, "context": None, "home": None})


def test_a_bad_flag_is_named_as_a_flag_and_a_bad_variable_as_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"^--lease: .*number.*'x'"):
        options.load({"lease": "x"})
    monkeypatch.setenv("PENSTOCK_LEASE", "0")
    with pytest.raises(UserError, match=r"^PENSTOCK_LEASE: .*greater than 0.1"):
        options.load()


@for_each(
    ("redis://127.0.0.1:6379/0", "redis://127.0.0.1:6379/0"),
    ("redis://:secret@host:1/0", "redis://:***@host:1/0"),
    ("rediss://user:secret@host/2", "rediss://user:***@host/2"),
    ("redis://user@host/2", "redis://user@host/2"),
    ("redis://host/0?password=secret", "redis://host/0?***"),
    ("unix:///secret", "***"),
    ("secret", "***"),
    ("redis://[secret", "***"),
)
def test_passwords_of_urls_are_masked(url: str, shown: str) -> None:
    assert options.mask(url) == shown


@for_each(
    (None, "redis://:a%2Fb%40c@127.0.0.1:6379/0"),
    ("redis://host:1/2", "redis://:a%2Fb%40c@host:1/2"),
    ("rediss://user@host/2?ssl_ca_certs=/y@z", "rediss://user:a%2Fb%40c@host/2?ssl_ca_certs=/y@z"),
    ("redis://user:before@host/2", "redis://user:a%2Fb%40c@host/2"),
)
def test_the_brokers_password_is_read_from_a_file(url: str | None, whole: str, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("a/b@c\n")
    settings = options.load({"broker": url, "broker_password_file": str(tmp_path / "password")})
    assert settings.broker.get_secret_value() == whole


@for_each(None, "", "\n", b"\xff")
def test_a_password_file_that_holds_none_is_refused_by_its_variable(
    content: str | bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "password"
    if content is not None:
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    monkeypatch.setenv("PENSTOCK_BROKER_PASSWORD_FILE", str(file))
    with pytest.raises(UserError, match=r"^PENSTOCK_BROKER_PASSWORD_FILE: [^;]*(cannot be read|is empty)[^;]*$"):
        options.load()


def test_rows_say_where_each_value_comes_from() -> None:
    environ = {"PENSTOCK_SLOTS": "3"}
    flags = {"broker": "redis://:secret@host/0"}
    settings = Settings(broker="redis://:secret@host/0", slots=3)
    rows = {row.name: row for row in options.rows(settings, flags, environ)}
    assert list(rows) == list(Settings.model_fields)
    assert dataclasses.astuple(rows["slots"])[:6] == ("slots", "PENSTOCK_SLOTS", "--slots", "16", "3", "variable")
    assert (rows["broker"].value, rows["broker"].source) == ("redis://:***@host/0", "flag")
    assert (rows["lease"].value, rows["lease"].source) == ("4", "default")
    assert all(row.meaning for row in rows.values())


def test_a_misspelt_variable_is_pointed_out_with_the_nearest_name() -> None:
    environ = {"PENSTOCK_LEESE": "1", "PENSTOCK_LEASE": "1", "PENSTOCK_TEST_REDIS": "x", "PENSTOCK_QQQ": "", "HOME": ""}
    assert options.misspelt(environ) == [
        "PENSTOCK_LEESE is not a setting; did you mean PENSTOCK_LEASE?",
        "PENSTOCK_QQQ is not a setting",
    ]


def test_a_child_reads_the_settings_its_parent_had(monkeypatch: pytest.MonkeyPatch) -> None:
    parent = options.load(
        {
            "broker": "redis://:s@h/1",
            "namespaces": "a,b",
            "wakeups": False,
            "lease": "2.5",
            "home": "/x y",
            "jobs": "all",
            "kubeconfig": "/k",
            "images": "nginx=| nginx -g 'daemon off;', worker=run -q \"a,b\"",
        }
    )
    assert parent.images == ("nginx=| nginx -g 'daemon off;'", 'worker=run -q "a,b"')
    variables = command_lines.environment(parent)
    assert set(variables) == {
        f"PENSTOCK_{name}"
        for name in ("BROKER", "NAMESPACES", "WAKEUPS", "LEASE", "HOME", "JOBS", "KUBECONFIG", "IMAGES")
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert Settings() == parent


@for_each("nginx", "=run", "nginx=", "nginx= |", "nginx='run", "python=python3,nginx")
def test_an_image_without_a_command_is_refused_by_its_flag(images: str) -> None:
    with pytest.raises(UserError, match=r"^--images: "):
        options.load({"images": images})
