"""A mapping of texts that may be secret."""

from collections.abc import Iterator, Mapping


class Hidden(Mapping[str, str]):
    """Texts by name, of which repr and text show the names only. Equal to any mapping of the same content."""

    __slots__ = ("_texts",)

    def __init__(self, texts: Mapping[str, str] | None = None) -> None:
        self._texts = dict(texts or {})

    def __getitem__(self, name: str) -> str:
        return self._texts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)

    def __repr__(self) -> str:
        return f"Hidden({', '.join(self._texts)})"
