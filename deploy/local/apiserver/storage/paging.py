"""Lists in pages: the later pages show the same moment as the first.

A page that is not the last leaves a snapshot behind, which costs little because records are shared and never change.
Old snapshots are dropped; their continue tokens are then answered with 410 and a token that goes on without
consistency, as kube-apiserver does after etcd was compacted.
"""

import asyncio
import base64
import binascii
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from deploy.local.apiserver.api_errors import ApiError, bad_request
from deploy.local.apiserver.storage.object_store import StoredObject

#: Snapshots kept, and for how many seconds after their last use; and for how many once all clients have their last
#: page: a client whose connection broke asks for that page again.
KEPT, AGE, AGE_READ = 64, 300.0, 10.0


@dataclass(frozen=True, slots=True)
class Token:
    """The beginning of the next page. version: of the snapshot; -1 for the present objects."""

    version: int
    start: str

    def encode(self) -> str:
        """Returns the opaque text that clients send for the next page."""
        text = orjson.dumps({"v": "meta.k8s.io/v1", "rv": self.version, "start": self.start})
        return base64.urlsafe_b64encode(text).rstrip(b"=").decode()

    @classmethod
    def decode(cls, text: str) -> "Token":
        """The token of a text; 400 for anything else."""
        try:
            found = orjson.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
            return cls(int(found["rv"]), str(found["start"]))
        except (binascii.Error, ValueError, KeyError, TypeError) as error:
            raise bad_request(f"invalid continue token: continue key is not valid: {error}") from None


@dataclass(slots=True)
class _Snapshot:
    """A list at one moment. readers: clients that have its first page and not its last. until: when it is dropped."""

    records: Sequence[StoredObject]
    readers: int = 0
    until: float = 0.0


class Snapshots:
    """Lists as they were when a client began to page through them."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str, int], _Snapshot] = OrderedDict()

    def keep(
        self, storage: str, namespace: str, version: int, records: Sequence[StoredObject], *, first: bool = True
    ) -> None:
        """Remembers a list for its next pages. first: the page before them was the first one."""
        kept = self._kept.setdefault((storage, namespace, version), _Snapshot(records))
        self._kept.move_to_end((storage, namespace, version))
        kept.readers += first
        self._drop_after(kept, AGE)

    def read(self, storage: str, namespace: str, version: int) -> None:
        """Notes that a client has the last page: a snapshot that no client pages through is kept for seconds only."""
        kept = self._kept.get((storage, namespace, version))
        if kept is not None:
            kept.readers -= 1
            if kept.readers <= 0:
                self._drop_after(kept, AGE_READ)

    def find(self, storage: str, namespace: str, version: int) -> Sequence[StoredObject] | None:
        """The list of that moment, if it is still known."""
        self.forget()
        kept = self._kept.get((storage, namespace, version))
        return kept.records if kept else None

    def forget(self) -> None:
        """Drops the lists that are too old or too many: they keep objects that are no more."""
        now = time.monotonic()
        for key in [key for key, kept in self._kept.items() if kept.until < now]:
            del self._kept[key]
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)

    def _drop_after(self, kept: _Snapshot, seconds: float) -> None:
        kept.until = time.monotonic() + seconds
        self.forget()
        asyncio.get_running_loop().call_later(seconds + 1, self.forget)


def lost(token: Token) -> ApiError:
    """410 for a snapshot that is gone, with a token that goes on from the same place in the present."""
    error = ApiError(
        410,
        "Expired",
        "The provided continue parameter is too old to display a consistent list result. You can start a new list "
        "without the continue parameter, or use the continue token in this response to retrieve the remainder of the "
        "results. Continuing with the provided token results in an inconsistent list - objects that were created, "
        "modified, or deleted between the time the first chunk was returned and now may show up in the list.",
    )
    error.metadata = {"continue": Token(-1, token.start).encode()}
    return error
