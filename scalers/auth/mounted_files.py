"""Parameters from local files, for the filePath of a ClusterTriggerAuthentication."""

from pathlib import Path, PurePosixPath

import orjson

from scalers.auth.secret_text import Hidden
from workers.errors import UserError

#: Bytes a file may have.
LARGEST = 1 << 20


def read(folder: Path | None, path: str) -> Hidden:
    """Returns the texts of a JSON object of texts. Folder and errors are as of `text`."""
    try:
        content = orjson.loads(_content(folder, path))
    except orjson.JSONDecodeError:
        raise UserError(f"{path} is not JSON") from None
    if not isinstance(content, dict) or not all(isinstance(text, str) for text in content.values()):
        raise UserError(f"{path} is not a JSON object of texts")
    return Hidden(content)


def text(folder: Path | None, path: str) -> str:
    """Returns the text in a file, without white space around it.

    folder: all such paths are relative to it and may not leave it. Raises UserError, which quotes nothing of the file.
    Blocks on the disk.
    """
    try:
        return _content(folder, path).decode().strip()
    except UnicodeDecodeError:
        raise UserError(f"{path} is not a text") from None


def _content(folder: Path | None, path: str) -> bytes:
    if folder is None:
        raise UserError("no folder for such files is set (PENSTOCK_AUTH_FOLDER)")
    if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
        raise UserError(f"{path} must be relative and without ..")
    root = folder.resolve()
    file = (root / path).resolve()
    # Kubernetes mounts Secrets as symbolic links within the folder, which are allowed.
    if not file.is_relative_to(root):
        raise UserError(f"{path} leads out of the folder for such files")
    try:
        if file.stat().st_size > LARGEST:
            raise UserError(f"{path} is larger than 1 MiB")
        return file.read_bytes()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
