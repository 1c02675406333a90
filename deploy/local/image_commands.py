"""The commands of images. Images are neither pulled nor run here, so a table says what well-known ones would run.

An image is known by its repository alone: registry, ``library/``, tag and digest do not count.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from workers.api.kinds import Object
from workers.errors import UserError

#: Tells whether a program exists on this machine.
HasProgram = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class ImageCommand:
    """The command of an image: its ENTRYPOINT, and its CMD, which the arguments of a container replace.

    own: pattern of a first argument that the image's entrypoint script gives to the program of the CMD; empty when
    there is no such script.
    """

    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    own: str = ""

    def words(self, arguments: Iterable[str]) -> tuple[str, ...]:
        """Returns the command line for these arguments of a container."""
        given = tuple(arguments)
        if given and self.own and re.fullmatch(self.own, given[0]):
            return (*self.command[:1], *given)
        return self.entrypoint + (given or self.command)


#: As the images of the same names on Docker Hub.
WELL_KNOWN: Mapping[str, ImageCommand] = {
    "alpine": ImageCommand(command=("sh",)),
    "bash": ImageCommand(command=("bash",), own="-.*"),
    "busybox": ImageCommand(command=("sh",)),
    "debian": ImageCommand(command=("bash",)),
    "node": ImageCommand(command=("node",), own=r"-.*|.*\.[cm]?js"),
    "python": ImageCommand(command=("python3",)),
    "redis": ImageCommand(command=("redis-server",), own=r"-.*|.*\.conf"),
    "ubuntu": ImageCommand(command=("bash",)),
    "valkey/valkey": ImageCommand(command=("valkey-server",), own=r"-.*|.*\.conf"),
}


def repository(image: str) -> str:
    """Returns the repository of an image: ``python`` for ``docker.io/library/python:3.12-slim``."""
    path = image.strip().partition("@")[0]
    first, slash, rest = path.partition("/")
    # A registry has a dot or a port, or is this machine; other first parts belong to the repository.
    if slash and ("." in first or ":" in first or first == "localhost"):
        path = rest
    head, slash, last = path.rpartition("/")
    return (head + slash + last.partition(":")[0]).removeprefix("library/")


def entry(text: str) -> tuple[str, ImageCommand]:
    """Reads ``IMAGE=ENTRYPOINT | CMD``, quoted as in a shell; without a bar all words are the ENTRYPOINT.

    Raises UserError for an entry without an image or a command, or with a quotation that does not end.
    """
    image, _, line = text.partition("=")
    name = repository(image)
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UserError(f"--images {text}: {error}") from error
    # A bar counts only as a word of its own: one in a quoted script belongs to the script.
    bar = words.index("|") if "|" in words else len(words)
    command = ImageCommand(tuple(words[:bar]), tuple(words[bar + 1 :]))
    if not name or not (command.entrypoint or command.command):
        raise UserError(f"--images {text}: must read IMAGE=COMMAND, for example nginx=nginx -g 'daemon off;'")
    return name, command


@dataclass(frozen=True, slots=True)
class Images:
    """The known images. Entries of the setting `images` come before those that everybody has."""

    commands: Mapping[str, ImageCommand]

    @classmethod
    def of(cls, entries: Iterable[str] = ()) -> "Images":
        """The well-known images and these entries. Raises UserError for a malformed one."""
        return cls({**WELL_KNOWN, **dict(map(entry, entries))})

    def words(self, container: Object) -> tuple[str, ...]:
        """Returns the command line of a container; empty if neither the container nor a known image names one."""
        arguments = container.get("args") or ()
        if own := container.get("command"):
            return (*own, *arguments)
        known = self.commands.get(repository(container.get("image") or ""))
        return known.words(arguments) if known else ()

    def problem(self, container: Object, has: HasProgram | None = None) -> str | None:
        """Returns why there is nothing to run for a container, or None.

        has: judges the program that a known image starts; without it the program is not judged.
        """
        if container.get("command"):
            return None
        name = repository(str(container.get("image") or ""))
        known = self.commands.get(name)
        if known is None:
            return (
                "no command: images are not run here; name a command in the container, "
                f"or that of the image by `penstock up --images {name}=COMMAND`"
            )
        if has is not None and not has(program := known.words(container.get("args") or ())[0]):
            return (
                f"no program {program}, which the image {name} stands for here: install it, "
                f"or name another command by `penstock up --images {name}=COMMAND`"
            )
        return None
