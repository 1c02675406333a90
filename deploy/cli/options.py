"""Settings as flags: every field of `Settings` is a flag of the process commands, a ``PENSTOCK_*`` variable, or both.

Name, default, help and allowed values come from the model. The model is imported only when a command that needs it is
parsed, so that ``penstock --help`` stays quick.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin
from urllib.parse import urlsplit, urlunsplit

import click

from deploy.cli.completion import completers
from workers.errors import UserError

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic.fields import FieldInfo

    from workers.settings import Settings

#: Environment variables with this prefix are settings, except the FOREIGN ones, which other code of Penstock reads.
PREFIX = "PENSTOCK_"
FOREIGN = ("PENSTOCK_TEST_", "PENSTOCK_VOLUME_", "PENSTOCK_MOUNT_", "PENSTOCK_READY_FILE")

#: Settings that choose a cluster by a path.
_PATHS = ("kubeconfig", "home")

#: The heading above the generated flags in a command's help.
HEADING = "Settings (each also a PENSTOCK_* variable, see `penstock settings`)"


class _Word(click.types.StringParamType):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return super().convert(value, param, ctx).removeprefix("=")


#: A text behind a flag of one letter, as users of kubectl write it, too: ``-n=batch`` for ``-n batch``.
WORD = _Word()


def selector(text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Returns the decorator of ``-l``, whose labels are the parameter `selector`. text: its help."""
    return click.option("-l", "--selector", type=WORD, default="", metavar="SELECTOR", help=text)


def flag(name: str) -> str:
    """Returns a field's flag: ``--in-flight`` for ``in_flight``."""
    return "--" + name.replace("_", "-")


def variable(name: str) -> str:
    """Returns a field's environment variable: ``PENSTOCK_IN_FLIGHT`` for ``in_flight``."""
    return PREFIX + name.upper()


def shown(value: Any) -> str:
    """Returns a setting's value as text, with a URL's password masked; empty for None."""
    if value is None:
        return ""
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    if isinstance(value, bool):
        return str(value).lower()
    if hasattr(value, "get_secret_value"):
        return mask(value.get_secret_value())
    return f"{value:g}" if isinstance(value, float) else str(value)


def mask(url: str) -> str:
    """Returns the URL with its password and query masked; ``***`` for a secret that is no URL."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "***"
    if not parts.scheme or not parts.netloc:
        return "***"
    if parts.password is None and not parts.query:
        return url
    account, at, host = parts.netloc.rpartition("@")
    user = account.partition(":")[0]
    credentials = f"{user}:***@" if at and parts.password is not None else account + at
    # A query may carry credentials too (?password=...).
    return urlunsplit((parts.scheme, credentials + host, parts.path, "***" if parts.query else "", ""))


def load(flags: Mapping[str, Any] | None = None) -> "Settings":
    """Returns the settings from flags (None: not given), then environment variables, then defaults.

    Raises UserError if a value is invalid; its message names the flag or the variable.
    """
    from pydantic import ValidationError

    from workers.settings import Settings

    given = {name: value for name, value in (flags or {}).items() if value is not None}
    for name in _PATHS:
        # A variable of a script that is not set must not choose another cluster.
        if given.get(name) == "":
            raise UserError(f"{flag(name)}: must not be empty")
    try:
        return Settings(**given)
    except ValidationError as error:
        raise UserError(_explain(error, given)) from error


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """The settings of a command that asks an API server alone; meaning and defaults are those of `Settings`."""

    kubeconfig: Path | None = None
    context: str | None = None
    home: Path = Path(".penstock")
    timeout: float = 15.0


def load_of_client(flags: Mapping[str, str | None]) -> ClientSettings:
    """Returns the settings as `load` does, and raises what it raises. flags: kubeconfig, context, home.

    Where no variable names another setting there is nothing to check, and the model is not imported: it costs a command
    more CPU than its request.
    """
    given = {name: value for name, value in flags.items() if value is not None}
    named = {name: value for name, value in os.environ.items() if name.upper().startswith(PREFIX)}
    for name, value in named.items():
        field = name.removeprefix(PREFIX).lower()
        if name == variable(field) and field in flags:
            given.setdefault(field, value)
        elif not name.startswith(FOREIGN):
            return _of_client(load(flags))
    if not all(given.values()):
        return _of_client(load(flags))
    settings = ClientSettings(Path(given["kubeconfig"]) if "kubeconfig" in given else None, given.get("context"))
    return replace(settings, home=Path(given["home"])) if "home" in given else settings


def _of_client(settings: "Settings") -> ClientSettings:
    return ClientSettings(settings.kubeconfig, settings.context, settings.home, settings.timeout)


def _explain(error: "ValidationError", given: Mapping[str, Any]) -> str:
    from penstock import _wording

    problems = []
    for each in _wording.findings(error):
        name = str(each.path[0]) if each.path else ""
        where = flag(name) if name in given else variable(name)
        value = "" if name == "broker" else f" (got {shown(each.value)!r})"
        problems.append(f"{where}: {each.message}{value}")
    return "; ".join(problems)


def misspelt(environ: Mapping[str, str]) -> list[str]:
    """Returns one warning per ``PENSTOCK_*`` variable that is no setting, because it is probably misspelt."""
    from workers.settings import Settings

    known = {variable(name).removeprefix(PREFIX) for name in Settings.model_fields}
    lines = []
    for name in sorted(environ):
        rest = name.removeprefix(PREFIX)
        if rest != name and rest not in known and not name.startswith(FOREIGN):
            import difflib

            close = difflib.get_close_matches(rest, sorted(known), n=1)
            lines.append(f"{name} is not a setting" + (f"; did you mean {PREFIX}{close[0]}?" if close else ""))
    return lines


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting as ``penstock settings`` lists it. source: ``flag``, ``variable`` or ``default``."""

    name: str
    variable: str
    flag: str
    default: str
    value: str
    source: Literal["flag", "variable", "default"]
    meaning: str


def rows(settings: "Settings", flags: Mapping[str, Any], environ: Mapping[str, str]) -> list[SettingRow]:
    """Returns every setting with its value and that value's source."""
    return [
        SettingRow(
            name=name,
            variable=variable(name),
            flag=flag(name),
            default=shown(field.default),
            value=shown(getattr(settings, name)),
            source="flag" if flags.get(name) is not None else "variable" if variable(name) in environ else "default",
            meaning=field.description or "",
        )
        for name, field in type(settings).model_fields.items()
    ]


#: Completion of flags by their metavar; click completes nothing without one.
_COMPLETERS = {"PATH": completers.paths}


class SettingsCommand(click.Command):
    """A command that accepts every setting as a flag, beside its own options.

    The callback receives one mapping `flags` with the settings that were given on the command line.
    """

    _generated: list[click.Parameter] | None = None

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        if self._generated is None:
            self._generated = generated()
        return [*self.params, *self._generated, *([option] if (option := self.get_help_option(ctx)) else [])]

    def invoke(self, ctx: click.Context) -> Any:
        names = {parameter.name for parameter in self._generated or ()}
        flags = {name: ctx.params.pop(name) for name in list(ctx.params) if name in names}
        ctx.params["flags"] = {name: value for name, value in flags.items() if value is not None}
        for line in misspelt(os.environ):
            click.echo(f"penstock: warning: {line}", err=True)
        return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the command's own options first, then the generated ones."""
        generated = set(self._generated or ())
        own: list[tuple[str, str]] = []
        settings: list[tuple[str, str]] = []
        for parameter in self.get_params(ctx):
            if record := parameter.get_help_record(ctx):
                (settings if parameter in generated else own).append(record)
        with formatter.section("Options"):
            formatter.write_dl(own)
        with formatter.section(HEADING):
            formatter.write_dl(settings)


def generated() -> list[click.Parameter]:
    """Returns one option per field of `Settings`, without defaults: None means not given."""
    from workers.settings import Settings

    return [_option(name, field) for name, field in Settings.model_fields.items()]


def _option(name: str, field: "FieldInfo") -> click.Option:
    default = shown(field.default)
    meaning = f"{field.description}" + (f" [default: {default}]" if default else "")
    if field.annotation is bool:
        return click.Option([f"{flag(name)}/--no-{name.replace('_', '-')}", name], default=None, help=meaning)
    if get_origin(field.annotation) is Literal:
        choices: Sequence[str] = get_args(field.annotation)
        # Click lists choices without case in small letters.
        meaning = f"{field.description} [default: {default.lower()}]"
        return click.Option([flag(name), name], type=click.Choice(choices, case_sensitive=False), help=meaning)
    # The model validates the value, so that a flag and a variable fail with the same message.
    metavar = _metavar(field)
    return click.Option(
        [flag(name), name], type=click.STRING, metavar=metavar, help=meaning, shell_complete=_COMPLETERS.get(metavar)
    )


def _metavar(field: "FieldInfo") -> str:
    if isinstance(field.json_schema_extra, dict) and (named := field.json_schema_extra.get("metavar")):
        return str(named)
    text = str(field.annotation)
    # The words of a list may have `int` in them.
    for part, metavar in (("tuple", "NAMES"), ("int", "N"), ("float", "SECONDS"), ("Path", "PATH"), ("Secret", "URL")):
        if part in text:
            return metavar
    return "TEXT"
