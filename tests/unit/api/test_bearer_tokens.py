"""The bearer token of a request."""

from tests.support.tables import cases
from workers.api.bearer_tokens import bearer_token


@cases(
    ("bearer", "Bearer abc", "abc"),
    ("lower case", "bearer abc", "abc"),
    ("white space around it", "Bearer  abc ", "abc"),
    ("basic", "Basic abc", ""),
    ("without a token", "Bearer", ""),
    ("none", "", ""),
)
def test_tokens_come_in_the_header(header: str, token: str) -> None:
    assert bearer_token({"authorization": header}) == token


def test_a_request_without_the_header_has_no_token() -> None:
    assert bearer_token({}) == ""
