"""The API server's certificate: kubectl sends its token over TLS only."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from deploy.certificate_authority import Authority
from deploy.local import private_files

#: What clients of this machine call it.
_NAMES = ("localhost", "127.0.0.1", "::1")
_LASTS = timedelta(days=3650)


@dataclass(frozen=True, slots=True)
class Files:
    """The files of the certificates. authority: what clients trust. certificate and key: what the server shows."""

    authority: Path
    certificate: Path
    key: Path


def ensure(folder: Path) -> Files:
    """The certificates of this folder, made when they are not all there.

    The authority's own key is forgotten once it has signed the one certificate, so that it can sign no more.
    """
    files = Files(folder / "ca.crt", folder / "apiserver.crt", folder / "apiserver.key")
    if all(path.exists() for path in (files.authority, files.certificate, files.key)):
        return files
    begin = datetime.now(UTC) - timedelta(hours=1)
    authority = Authority("penstock embedded cluster", begin, begin + _LASTS)
    server = authority.sign("localhost", _NAMES)
    private_files.write(files.key, server.key)
    private_files.write(files.certificate, server.certificate)
    private_files.write(files.authority, authority.certificate)
    return files
