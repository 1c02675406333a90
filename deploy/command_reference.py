"""Makes docs/command.md from the click commands: ``python -m deploy.command_reference > docs/command.md``."""

from collections.abc import Iterator

import click

from deploy.cli import main, options

INTRODUCTION = """# The `penstock` command

<!-- Made by `python -m deploy.command_reference`; a test keeps it in step with the commands. -->

Results go to standard output, everything else to standard error. The exit code is 0 for success, 1 for a failure (one
line gives the reason; `--debug`, anywhere on the command line, adds the traceback), 2 for a wrong command line.
Colours are for terminals only, and `NO_COLOR` turns them off.

Commands that read or change objects (`apply` to `template` below) find their cluster in this order: `--kubeconfig`,
`PENSTOCK_KUBECONFIG`, the kubeconfig that `penstock up` left in its home (`--home`, `PENSTOCK_HOME`, `./.penstock`),
then KUBECONFIG, `~/.kube/config` and a pod's own account. The embedded cluster's kubeconfig counts even while it is
stopped, so that a command never reaches another cluster by surprise.

A home may come with a folder from a stranger. So its kubeconfig is used only if it belongs to you, is no symbolic link,
gives others no rights (0600, which neither `git clone` nor most archives produce), lies in a folder that others cannot
change, and has nothing but what `penstock up` writes: a server on this machine, its certificate and a token. One with
`exec`, `auth-provider`, files or a proxy is an error that names the field; nothing in it is run or sent. The same is
asked of `broker.url`. What you name yourself, by `--kubeconfig`, `PENSTOCK_KUBECONFIG` or KUBECONFIG, is used as it
is, plugins included."""

SETTINGS = """## Settings

Every setting is a flag of `up`, `worker`, `scaler`, `beat`, `watch` and `settings`, and a variable. A flag wins over a
variable, a variable over the default. Durations are seconds.

| flag | variable | default | meaning |
|---|---|---|---|"""

#: Columns of the help texts.
WIDTH = 100


def render() -> str:
    """Returns the whole page as Markdown."""
    return "\n\n".join([INTRODUCTION, *_sections(), _settings()]) + "\n"


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
    click.echo(render(), nl=False)
