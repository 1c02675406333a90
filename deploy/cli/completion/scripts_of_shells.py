"""``penstock completion``: the script that a shell evaluates, and the answers to that script's questions."""

import os

import click

#: The variable by which a script asks for candidates: ``_PENSTOCK_COMPLETE=bash_complete penstock``.
VARIABLE = "_PENSTOCK_COMPLETE"
SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print the script that completes command lines in a shell.

    It completes commands and options, kinds, namespaces, contexts and names of objects. Names come from the API
    server; the shell waits for it for a second at most, and gets none if it is away. Kubeconfigs whose credentials a
    program provides (`exec`) are left out: no key press runs one.

    \b
    Examples:
      source <(penstock completion bash)                                  this shell; in ~/.bashrc every one
      penstock completion zsh > "${fpath[1]}/_penstock"
      penstock completion fish > ~/.config/fish/completions/penstock.fish
    """
    from click import shell_completion

    root = click.get_current_context().find_root().command
    shell_completion.shell_complete(root, {}, "penstock", VARIABLE, f"{shell}_source")


def answer(root: click.Command) -> int | None:
    """Answers the question of a completion script and returns the exit code; None if this process was not asked."""
    shell, _, instruction = os.environ.get(VARIABLE, "").partition("_")
    if instruction != "complete" or shell not in SHELLS:
        return None
    from click import shell_completion

    return shell_completion.shell_complete(root, {}, "penstock", VARIABLE, f"{shell}_complete")
