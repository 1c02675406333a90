"""Files that only their owner may read: secrets, and files that decide which cluster or broker is called.

A user who could plant such a file would be sent credentials, or choose the programs that run. So a file is refused
that is a symbolic link, belongs to another user, or has a mode with rights for others: the last is what `git clone` and
most archives leave behind.
"""

import errno
import os
import stat
from pathlib import Path

from workers.errors import UserError


def check_folder(folder: Path) -> None:
    """Raises UserError if the folder belongs to another user, or others may change it. A missing one is fine."""
    try:
        found = folder.stat()
    except FileNotFoundError:
        return
    _check_owner(folder, found)
    if found.st_mode & 0o022:
        raise UserError(f"{folder}: others may change it (mode {stat.S_IMODE(found.st_mode):04o}): chmod go-w {folder}")


def check_entry(path: Path) -> None:
    """Raises UserError if the path is a symbolic link or belongs to another user. A missing one is fine."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if stat.S_ISLNK(found.st_mode):
        raise UserError(f"{path}: is a symbolic link")
    _check_owner(path, found)


def read(path: Path) -> str | None:
    """Returns the text of a private file, None if there is no such file.

    Raises UserError if the file is a symbolic link or no regular file, belongs to another user, or others may read or
    change it.
    """
    try:
        # A FIFO would block.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UserError(f"{path}: {'is a symbolic link' if error.errno == errno.ELOOP else error.strerror}") from error
    with os.fdopen(descriptor, encoding="utf-8", errors="replace") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise UserError(f"{path}: is no regular file")
        _check_owner(path, found)
        if found.st_mode & 0o077:
            mode = f"{stat.S_IMODE(found.st_mode):04o}"
            raise UserError(
                f"{path}: others may read or change it (mode {mode}); if it is yours, remove it, and `penstock up` "
                "makes a new one"
            )
        return file.read()


def write(path: Path, text: str) -> None:
    """Replaces a file by one that only its owner can read, all at once; what a link points to stays as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}.new")
    # Left behind by a process that was killed, or planted: O_EXCL neither follows nor reuses it.
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    draft.replace(path)


def _check_owner(path: Path, found: os.stat_result) -> None:
    if found.st_uid != os.geteuid():
        raise UserError(f"{path}: belongs to another user (uid {found.st_uid})")
