"""The Warning header can be sent whatever the texts are that clients have sent."""

from hypothesis import given
from hypothesis import strategies as st
from uvicorn.protocols.http.httptools_impl import HEADER_VALUE_RE

from deploy.local.apiserver.http import warning_headers
from tests.support.tables import for_each


@for_each(
    (["a"], '299 - "a"'),
    (["a", "b", "a"], '299 - "a", 299 - "b"'),
    (['unknown field "a"'], '299 - "unknown field \\"a\\""'),
    (["a\\b"], '299 - "a\\\\b"'),
    (["a\r\nb: c\x00\x7f"], '299 - "a\\\\r\\\\nb: c\\\\x00\\\\x7f"'),
    (["ß\u2028"], '299 - "ß\\\\u2028"'),
)
def test_warnings_are_quoted(texts: list[str], header: str) -> None:
    assert warning_headers.of(texts) == {"Warning": header}


@given(st.lists(st.text(st.characters(exclude_categories=[])), max_size=3))
def test_any_text_can_be_sent(texts: list[str]) -> None:
    assert not HEADER_VALUE_RE.search(warning_headers.of(texts)["Warning"].encode())


@for_each(
    (["a" * 4096], [4096]),
    (["a" * 4097], [256]),
    (["a" * 4000, "b" * 97], [256, 97]),
    ([f"{number:0300}" for number in range(40)], [256] * 16),
)
def test_warnings_are_bounded_together(texts: list[str], lengths: list[int]) -> None:
    header = warning_headers.of(texts)["Warning"]
    assert [len(part) for part in header.removeprefix('299 - "').removesuffix('"').split('", 299 - "')] == lengths
