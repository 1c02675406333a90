"""The broker's address: what a URL says, and what is refused."""

from pathlib import Path

import pytest

from scheduler.broker import address
from scheduler.broker.address import BrokerAddress, BrokerTLS
from tests.support.paths import ROOT
from tests.support.tables import cases, for_each

TLS = BrokerTLS("/ca.pem")


@cases(
    ("the least", "redis://h", BrokerAddress((("h", 6379),))),
    ("a port that takes no connections", "redis://h:0", BrokerAddress((("h", 0),))),
    ("port and database", "redis://h:1/3", BrokerAddress((("h", 1),), 3)),
    ("the database as an option", "redis://h?db=3", BrokerAddress((("h", 6379),), 3)),
    ("IPv6", "redis://[::1]:1/0", BrokerAddress((("::1", 1),))),
    ("password", "redis://:p%40%23@h", BrokerAddress((("h", 6379),), password="p@#")),
    ("user", "redis://u:p@h", BrokerAddress((("h", 6379),), 0, "u", "p")),
    ("password as an option", "redis://h?password=p", BrokerAddress((("h", 6379),), password="p")),
    ("TLS verifies", "rediss://h", BrokerAddress((("h", 6379),), tls=BrokerTLS())),
    (
        "Celery's spelling",
        "rediss://h?ssl_cert_reqs=CERT_NONE",
        BrokerAddress((("h", 6379),), tls=BrokerTLS(verify="none")),
    ),
    (
        "certificates and a server name",
        "rediss://h?ssl_ca_certs=/ca&ssl_certfile=/c&ssl_keyfile=/k&ssl_server_name=n",
        BrokerAddress((("h", 6379),), tls=BrokerTLS("/ca", "/c", "/k", server_name="n")),
    ),
    ("sentinels", "sentinel://:p@a,b:1/2?master=m", BrokerAddress((("a", 26379), ("b", 1)), 2, None, "p", master="m")),
    (
        "sentinels with a login and TLS",
        "sentinel://u:p@a?master=m&ssl=true&ssl_ca_certs=/ca.pem&sentinel_username=s&sentinel_password=q",
        BrokerAddress(
            (("a", 26379),), 0, "u", "p", TLS, "m", sentinel_username="s", sentinel_password="q", sentinel_tls=TLS
        ),
    ),
    (
        "TLS to the server alone",
        "sentinel://a?master=m&ssl=true&sentinel_ssl=false",
        BrokerAddress((("a", 26379),), tls=BrokerTLS(), master="m"),
    ),
    ("nodes of a cluster", "redis://a,b:1?cluster=true", BrokerAddress((("a", 6379), ("b", 1)), cluster=True)),
)
def test_a_url_is_read(url: str, expected: BrokerAddress) -> None:
    assert address.parse(url) == expected


@for_each(
    ("http://h", "must begin with redis://"),
    ("redis://", "must begin with redis://"),
    ("redis://h:port", "must begin with redis://"),
    ("amqp://h", "must begin with redis://"),
    ("redis://h/zero", "must end in the number of a database"),
    ("redis://h?ssl_min_version=TLSv1_3", "the option ssl_min_version, which is not supported"),
    ("redis://h?socket_timeout=1", "the option socket_timeout, which is not supported"),
    ("rediss://h?ssl_cert_reqs=none&ssl_cert_reqs=required", "ssl_cert_reqs twice"),
    ("rediss://h?ssl_cert_reqs=never", "ssl_cert_reqs must be required, optional or none"),
    ("rediss://h?ssl_check_hostname=maybe", "ssl_check_hostname must be true or false"),
    ("rediss://h?ssl_certfile=/c", "ssl_certfile and ssl_keyfile together"),
    ("rediss://h?ssl_check_hostname=no&ssl_server_name=n", "which ssl_check_hostname=false ignores"),
    ("redis://h?ssl_ca_certs=/ca", "ssl_ca_certs is of no use without rediss://"),
    ("redis://h?ssl_cert_reqs=required", "ssl_cert_reqs is of no use without rediss://"),
    ("sentinel://h?master=m&ssl_ca_certs=/ca", "of no use without [?]ssl=true"),
    ("sentinel://h?master=m&sentinel_ssl=true", "sentinel_ssl=true without ssl=true"),
    ("sentinel://h", "must name the master"),
    ("redis://a,b", "must name one server"),
    ("redis://a/1?cluster=true", "a cluster has database 0 only"),
    ("redis-cluster://a", "names a cluster by [?]cluster=true"),
    ("redis://h?master=m", "the option master, which is not supported"),
    ("redis://hunter2@h", "names a user without a password"),
    ("redis://:a#hunter2@h", "must begin with|must be written %23"),
)
def test_what_cannot_be_honoured_is_refused_by_name(url: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as caught:
        address.parse(url)
    assert "hunter2" not in str(caught.value)


def test_no_text_of_an_address_shows_a_password() -> None:
    found = address.parse("sentinel://u:hunter2@a,b/0?master=m&sentinel_password=swordfish")
    for text in (str(found), repr(found), f"{found!r:s}"):
        assert "hunter2" not in text
        assert "swordfish" not in text
    assert str(found) == "m of a:26379,b:26379/0"


def test_nothing_else_makes_a_client_of_a_url() -> None:
    folders = ("scheduler", "workers", "scalers", "deploy")
    files = [file for folder in folders for file in (ROOT / folder).rglob("*.py") if "demo" not in file.parts]
    assert len(files) > 300
    assert not [str(file) for file in files if "Redis.from_url(" in file.read_text()]


def test_files_of_settings_become_options_of_the_url_with_absolute_paths() -> None:
    url = address.with_files("rediss://h?ssl_server_name=n", {"broker_ca": Path("ca.pem"), "broker_cert": None})
    assert address.parse(url).tls == BrokerTLS(str(Path("ca.pem").absolute()), server_name="n")


def test_a_file_that_url_and_setting_name_is_refused() -> None:
    with pytest.raises(ValueError, match="ssl_ca_certs, and a setting names such a file too"):
        address.with_files("rediss://h?ssl_ca_certs=/a", {"broker_ca": Path("/b")})
