"""The patches the API server takes: JSON patch, merge patch and strategic merge patch. Handlers import them.

A patch is a function of values: it raises PatchError and knows nothing of HTTP.
"""


class PatchError(ValueError):
    """A patch that cannot be used. status: the HTTP code, 400 (not a patch), 413 or 422 (cannot be applied)."""

    def __init__(self, message: str, *, status: int = 422) -> None:
        super().__init__(message)
        self.status = status
