"""Which proxy the environment names, by kubectl's rules."""

import pytest

from tests.support.tables import cases
from workers.client.environment_proxies import proxy_for

PROXY = "http://proxy.example.org:3128"
API = "https://api.example.org:6443"


@cases(
    ("no variables", API, {}, ""),
    ("HTTPS_PROXY", API, {"HTTPS_PROXY": PROXY}, PROXY),
    ("the lower-case name", API, {"https_proxy": PROXY}, PROXY),
    ("upper case comes first", API, {"HTTPS_PROXY": PROXY, "https_proxy": "http://other"}, PROXY),
    ("HTTP_PROXY is not for https", API, {"HTTP_PROXY": PROXY}, ""),
    ("HTTP_PROXY is for http", "http://api.example.org", {"HTTP_PROXY": PROXY}, PROXY),
    ("a proxy without a scheme", API, {"HTTPS_PROXY": "proxy.example.org:3128"}, PROXY),
    ("localhost has none", "https://localhost:6443", {"HTTPS_PROXY": PROXY}, ""),
    ("a loopback address has none", "https://127.0.0.9:6443", {"HTTPS_PROXY": PROXY}, ""),
    ("a loopback address of IPv6 has none", "https://[::1]:6443", {"HTTPS_PROXY": PROXY}, ""),
)
def test_the_proxy_of_a_url(url: str, environ: dict[str, str], expected: str) -> None:
    assert proxy_for(url, environ) == expected


@pytest.mark.parametrize(
    ("url", "listed", "bypassed"),
    [
        (API, "*", True),
        (API, "example.org", True),
        (API, "api.example.org", True),
        (API, ".example.org", True),
        (API, "*.example.org", True),
        (API, "API.Example.org", True),
        (API, "other.org, example.org", True),
        (API, "example.org:6443", True),
        (API, "example.org:443", False),
        (API, "ample.org", False),
        (API, "", False),
        ("https://example.org", ".example.org", False),
        ("https://example.org", "*.example.org", False),
        ("https://10.96.0.1:443", "10.0.0.0/8", True),
        ("https://10.96.0.1:443", "10.96.0.1", True),
        ("https://10.96.0.1:443", "10.96.0.1:443", True),
        ("https://10.96.0.1:443", "10.96.0.1:6443", False),
        ("https://10.96.0.1:443", "192.168.0.0/16", False),
        ("https://[fd00::1]:443", "fd00::/8", True),
        ("https://10.96.0.1:443", "0.1", False),
    ],
)
def test_no_proxy_lists_names_addresses_and_networks(url: str, listed: str, *, bypassed: bool) -> None:
    assert (proxy_for(url, {"HTTPS_PROXY": PROXY, "NO_PROXY": listed}) == "") is bypassed
