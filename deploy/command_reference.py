"""Makes the sections of docs/command.md from the click commands: ``python -m deploy.command_reference``."""

from collections.abc import Iterator

import click

from deploy import generated_docs
from deploy.cli import main, options

SETTINGS = """## Settings

Every setting is a flag of `up`, of every process, and of `healthy`, `doctor` and `settings`, and a variable. A flag
wins over a variable, a variable over the default. Durations are seconds.

| flag | variable | default | meaning |
|---|---|---|---|"""

#: Columns of the help texts.
WIDTH = 100


def render() -> str:
    """Returns the sections as Markdown."""
    return "\n\n".join([*_sections(), _settings()]) + "\n"


def _sections() -> Iterator[str]:
    for heading, commands in main.SECTIONS.items():
        yield f"## {heading}"
        for command in map(main.command_of, commands):
            name = f"penstock {command.name}"
            yield f"### {name}\n\n{_help(command, name)}"
            for verb in command.commands.values() if isinstance(command, click.Group) else ():
                yield f"#### {name} {verb.name}\n\n{_help(verb, f'{name} {verb.name}')}"


def _help(command: click.Command, name: str) -> str:
    context = click.Context(command, info_name=name, terminal_width=WIDTH, **main.CONTEXT)
    # The page lists the generated flags once, in the table of settings.
    text = command.get_help(context).partition(f"\n{options.HEADING}")[0].rstrip()
    return f"```text\n{text}\n```"


def _settings() -> str:
    from workers.settings import Settings

    lines = [
        f"| `{options.flag(name)}` | `{options.variable(name)}` | {_code(options.shown(field.default))} "
        f"| {field.description} |"
        for name, field in Settings.model_fields.items()
    ]
    return "\n".join([SETTINGS, *lines])


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


if __name__ == "__main__":
    generated_docs.write("command.md", render())
