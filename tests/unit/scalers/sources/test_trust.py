"""Options that change how a server is trusted: each is honoured, or refused by name; none is dropped."""

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from typing import Any

import pytest

from penstock.parameters import IGNORED_TRUST, SettingsError
from scalers.scaler_registry import REGISTRY
from tests.support.tables import for_each
from tests.unit.scalers.sources.test_parameters import GOOD, PEM, but

#: A certificate and its key are one option.
PAIRS = {"@cert": "@key", "@clientCert": "@clientKey", "@tlsClientCert": "@tlsClientKey"}

#: What a trigger's metadata, or its authentication (`@`), may say of TLS and the login, each as if it were meant.
OPTIONS: Mapping[str, str] = {
    **dict.fromkeys(("tls", "@tls"), "enable"),
    **dict.fromkeys(("enableTLS", "@enableTLS", "unsafeSsl", "@unsafeSsl", "useHttps", "verify"), "true"),
    **dict.fromkeys(("sasl", "@sasl"), "scram_sha512"),
    **dict.fromkeys(("sslmode", "@sslmode"), "verify-full"),
    **dict.fromkeys(("ca", "@ca", "@caCert"), PEM.authority),
    **dict.fromkeys(PAIRS, PEM.client),
    "@keyPassword": "open sesame",
}


@dataclass(frozen=True)
class Row:
    """One type's example, and the options that it honours.

    secure: changes after which the example speaks TLS; None for a type that logs in to no server. in_clear: honoured
    by the example as it is. encrypted: honoured after these changes. URL: the parameter that is one, with its value.
    """

    secure: Mapping[str, str] | None
    in_clear: str = ""
    encrypted: str = ""
    url: tuple[str, str] | None = None


CERTIFICATES = "unsafeSsl @ca @cert"
SWITCH = {"@tls": "enable"}
REDIS = Row({"enableTLS": "true"}, "enableTLS @tls", CERTIFICATES)
KAFKA = Row({"tls": "enable"}, "tls @tls sasl", f"sasl {CERTIFICATES}")
EXTERNAL = Row({"enableTLS": "true"}, "enableTLS @caCert @tlsClientCert", "unsafeSsl @caCert @tlsClientCert")
ALONE = Row(None)


def web(parameter: str, **more: str) -> Row:
    return Row({parameter: "https://127.0.0.1:1/", **more}, "", "unsafeSsl @ca")


TABLE: Mapping[str, Row] = {
    "apache-kafka": KAFKA,
    "celery": Row({"@broker": "rediss://:pw@a/0"}, "", "unsafeSsl @ca @cert", ("@broker", "rediss://:pw@a/0")),
    "cpu": ALONE,
    "cron": ALONE,
    "elasticsearch": web("addresses"),
    "etcd": Row(SWITCH, "@tls", CERTIFICATES),
    "external": EXTERNAL,
    "external-push": EXTERNAL,
    "github-runner": web("githubApiURL"),
    "graphite": web("serverAddress"),
    "influxdb": web("serverURL"),
    "kafka": KAFKA,
    "kubernetes-resource": ALONE,
    "kubernetes-workload": ALONE,
    "loki": web("serverAddress"),
    "memory": ALONE,
    "metrics-api": web("url"),
    "mongodb": Row(SWITCH, "@tls", CERTIFICATES, ("@connectionString", "mongodb+srv://u:pw@a.b.c/d")),
    "mysql": Row(
        {"@connectionString": "u:pw@tcp(a)/d?tls=true"}, "", "", ("@connectionString", "u:pw@tcp(a)/d?timeout=5s")
    ),
    "nats-jetstream": Row({"useHttps": "true"}, "useHttps", "unsafeSsl @ca"),
    "opensearch": web("addresses"),
    "postgresql": Row(
        {"@connection": "postgresql://a/d?sslmode=require"}, "", "", ("@connection", "postgresql://u:pw@a/d")
    ),
    "prometheus": web("serverAddress"),
    "push": Row({"address": "a:1", "enableTLS": "true"}, "", CERTIFICATES),
    "rabbitmq": Row({"host": "https://a/", **SWITCH}, "", CERTIFICATES, ("host", "amqps://a/")),
    "redis": REDIS,
    "redis-cluster": REDIS,
    "redis-cluster-streams": REDIS,
    "redis-sentinel": REDIS,
    "redis-sentinel-streams": REDIS,
    "redis-streams": REDIS,
}

#: Options of the types' URLs, with the types that read them.
IN_URLS: Mapping[str, str] = {
    "ssl=true": "mongodb postgresql",
    "tls=true": "mongodb mysql",
    "tlsInsecure=true": "mongodb",
    "tls=skip-verify": "mysql",
    "sslmode=verify-full": "postgresql",
    "sslrootcert=": "postgresql",
    "ssl_cert_reqs=none": "celery",
    **dict.fromkeys(("ssl_ca_certs=/a", "ssl_certfile=/a", "ssl_keyfile=/a", "ssl_check_hostname=false"), ""),
    **dict.fromkeys(("cacertfile=/a", "certfile=/a", "keyfile=/a", "verify=verify_none", "auth_mechanism=x"), ""),
    **dict.fromkeys(("server_name_indication=a", "ssl-mode=REQUIRED", "ssl_ca=/a"), ""),
}


def test_the_table_has_every_type() -> None:
    assert tuple(TABLE) == REGISTRY.known()


def server(type_: str, changes: Mapping[str, str], quirks: str = "") -> Any:
    scaler = REGISTRY.find(type_).parse(replace(but(type_, changes), quirks=quirks))
    return getattr(scaler, "server", None)


def honoured(type_: str, base: Mapping[str, str], without: Set[str]) -> set[str]:
    """Returns the options that change how the server is reached. Fails for one that does nothing and is not named.

    without: options that are not tried.
    """
    before, found = server(type_, base), set()
    for option in set(OPTIONS) - without:
        changes = {option: OPTIONS[option], **({PAIRS[option]: PEM.client_key} if option in PAIRS else {})}
        try:
            after = server(type_, {**base, **changes})
        except SettingsError as refused:
            said = str(refused)
        else:
            # What an external scaler's trigger says besides is for its server.
            for_the_server = type_.startswith("external") and not option.startswith("@") and after == before
            said = option if for_the_server or after != before else "nothing"
            found.update([option] if after != before else ())
        assert option.removeprefix("@") in said, f"{option} is dropped, or refused without its name: {said}"
    return found


SERVED = tuple(type_ for type_, row in TABLE.items() if row.secure is not None)


@for_each(*SERVED)
def test_an_option_is_honoured_or_refused_by_name(type_: str) -> None:
    row = TABLE[type_]
    # Said twice, the metadata win; and a password of a key means nothing without the key.
    known = {f"@{name}" for name in GOOD[type_].metadata}
    if "key_password" in REGISTRY.find(type_).model_fields:
        known.add("@keyPassword")
    assert honoured(type_, {}, known) == set(row.in_clear.split())
    known |= {"tls", "@tls", "enableTLS", "useHttps"}
    assert honoured(type_, row.secure or {}, known) == set(row.encrypted.split())


@for_each(*(type_ for type_, row in TABLE.items() if row.secure is None))
def test_a_type_without_a_login_reads_no_authentication(type_: str) -> None:
    for option in (option for option in OPTIONS if not option.startswith("@")):
        with pytest.raises(SettingsError, match=option):
            server(type_, {option: OPTIONS[option]})
    server(type_, {option: value for option, value in OPTIONS.items() if option.startswith("@")})


@for_each(*SERVED)
def test_kedas_way_drops_options_without_effect(type_: str) -> None:
    for option in ("@enableTLS", "unsafeSsl", "@ca"):
        if type_ not in ("push", "mysql", "postgresql") and (type_, option) != ("opensearch", "@enableTLS"):
            server(type_, {option: OPTIONS[option]}, IGNORED_TRUST)


@for_each(*IN_URLS)
@for_each(*(type_ for type_, row in TABLE.items() if row.url))
def test_an_option_in_a_url_is_honoured_or_refused(type_: str, option: str) -> None:
    parameter, url = TABLE[type_].url or ("", "")
    changes = {parameter: f"{url}{'&' if '?' in url else '?'}{option}"}
    if type_ in IN_URLS[option].split():
        assert server(type_, changes) != server(type_, {parameter: url})
        return
    with pytest.raises(SettingsError, match=parameter.removeprefix("@")) as refused:
        server(type_, changes)
    # The libraries of these two read their own, and name none: it may stand in a password.
    assert type_ in ("mongodb", "postgresql") or option.partition("=")[0] in str(refused.value)


@for_each("redis://a?ssl_cert_reqs=required", "sentinel://a?ssl=true", "redis://a?ssl=true", "amqp://a?ssl=true")
def test_a_celery_broker_that_speaks_no_tls_says_so(url: str) -> None:
    with pytest.raises(SettingsError, match=r"broker: ssl\w* is not supported"):
        server("celery", {"@broker": url, **({"sentinelMaster": "m"} if url.startswith("sentinel") else {})})
