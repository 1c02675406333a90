"""Triggers that ask over HTTP: what is sent, what comes of the answers, and real servers where there are any."""

import asyncio
import base64
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from aiohttp import web

from penstock.connections import Connections
from penstock.parameters import Trigger
from penstock.scaler import Measure, Scaler, SourceError
from scalers.sources.http.elasticsearch import Elasticsearch
from scalers.sources.http.graphite import Graphite
from scalers.sources.http.influxdb import InfluxDB
from scalers.sources.http.loki import Loki
from scalers.sources.http.metrics_api import MetricsAPI
from scalers.sources.http.prometheus import Prometheus
from tests.integration.scalers.daemons import needs, running
from tests.integration.scalers.servers import ask, hanging, reading, refusing
from tests.support.ports import free_port
from tests.support.servers import answering
from tests.support.tables import cases, for_each


@dataclass
class Fake:
    """An HTTP server that answers what it is told, and remembers what it was asked. refused: tokens that it refuses."""

    url: str = ""
    token: object = "fresh"
    refused: set[str] = field(default_factory=set)
    body: bytes = b""
    status: int = 200
    location: str = "/elsewhere"
    asked: list[web.BaseRequest] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked.append(request)
        self.bodies.append(await request.read())
        if request.path == "/token":
            return web.json_response({"access_token": self.token, "expires_in": 600})
        if request.headers.get("Authorization", "").removeprefix("Bearer ") in self.refused:
            return web.Response(status=401)
        return web.Response(body=self.body, status=self.status, headers={"Location": self.location})


@pytest.fixture
async def fake() -> AsyncIterator[Fake]:
    server = Fake()
    async with answering(server.answer) as server.url:
        yield server


def scaler(kind: type[Scaler], metadata: dict[str, str], **authentication: str) -> Any:
    return kind.parse(Trigger(0, "t", metadata=metadata, authentication=authentication))


async def read(connections: Connections, *scalers: Any) -> list[Any]:
    return list(await type(scalers[0]).read(scalers, connections))


def vector(*values: str) -> bytes:
    series = ",".join(f'{{"metric":{{}},"value":[1,{value}]}}' for value in values)
    return f'{{"status":"success","data":{{"resultType":"vector","result":[{series}]}}}}'.encode()


@cases(
    ("one sample", vector('"12.5"'), {}, 12.5),
    ("a scalar", b'{"data":{"resultType":"scalar","result":[1,"3"]}}', {}, 3.0),
    ("an answer that does not tell its type", b'{"data":{"result":[{"value":[1,"3"]}]}}', {}, 3.0),
    ("nothing is 0", vector(), {}, 0.0),
    ("nothing is an error", vector(), {"ignoreNullValues": "false"}, "answers nothing"),
    ("not a number is 0", vector('"NaN"'), {}, 0.0),
    ("infinite is an error", vector('"+Inf"'), {"ignoreNullValues": "false"}, "answers inf"),
    ("null is an error", vector("null"), {"ignoreNullValues": "false"}, "answers nothing"),
    ("several series", vector('"1"', '"2"'), {}, "answers 2 series"),
    ("garbage", b"<html>", {}, "is not one of a query"),
    ("half an answer", vector('"1"')[:-9], {}, "is not one of a query"),
    ("no data", b'{"data":null}', {}, "is not one of a query"),
)
async def test_prometheus_answers(
    body: bytes, more: dict[str, str], expected: float | str, fake: Fake, connections: Connections
) -> None:
    fake.body = body
    metadata = {"serverAddress": fake.url, "query": "up", "threshold": "1", **more}
    [answer] = await read(connections, scaler(Prometheus, metadata))
    if isinstance(expected, float):
        assert answer == expected
    else:
        assert isinstance(answer, SourceError)
        assert expected in str(answer)


async def test_the_proxy_of_the_environment_is_asked_for_other_machines(
    fake: Fake, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.body = b'{"a":5}'
    metadata = {"url": "http://metrics.invalid/x", "valueLocation": "a", "targetValue": "1", "authModes": "oauth"}
    token = {"oauthTokenURI": "http://tokens.invalid/token", "clientID": "us"}
    monkeypatch.setenv("HTTP_PROXY", fake.url.replace("://", "://me:hush@"))
    assert await read(connections, scaler(MetricsAPI, metadata, **token)) == [5.0]
    assert [str(request.url) for request in fake.asked] == [token["oauthTokenURI"], metadata["url"]]
    assert {request.headers["Proxy-Authorization"] for request in fake.asked} == {
        "Basic " + base64.b64encode(b"me:hush").decode()
    }
    plain = metadata | {"authModes": ""}
    # This machine never has one, and neither has what NO_PROXY lists.
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{refusing()}")
    assert await read(connections, scaler(MetricsAPI, plain | {"url": f"{fake.url}/x"})) == [5.0]
    with pytest.raises(SourceError, match=r"metrics\.invalid:80: the proxy cannot be reached: Connect"):
        await read(connections, scaler(MetricsAPI, plain))
    monkeypatch.setenv("NO_PROXY", "invalid")
    with pytest.raises(SourceError, match=r"metrics\.invalid:80: cannot be reached: "):
        await read(connections, scaler(MetricsAPI, plain))


async def test_what_prometheus_is_asked(fake: Fake, connections: Connections) -> None:
    fake.body = vector('"1"')
    metadata = {
        "serverAddress": f"{fake.url}/below/",
        "query": 'sum(x{y="a b"})',
        "threshold": "1",
        "namespace": "ns",
        "queryParameters": "a=1, b=2",
        "customHeaders": "X-Org=me",
    }
    assert await read(connections, scaler(Prometheus, metadata)) == [1.0]
    [request] = fake.asked
    assert request.path == "/below/api/v1/query"
    assert {**request.query}.items() >= {"query": 'sum(x{y="a b"})', "namespace": "ns", "a": "1", "b": "2"}.items()
    assert request.query["time"].endswith("Z")
    assert request.headers["X-Org"] == "me"


BASIC = "Basic " + base64.b64encode("ü:hush".encode()).decode()


@cases(
    ("basic", {"authModes": "basic"}, {"username": "ü", "password": "hush"}, "Authorization", BASIC),
    ("bearer", {"authMode": "bearer"}, {"token": "hush"}, "Authorization", "Bearer hush"),
    ("custom", {"authModes": "custom"}, {"customAuthHeader": "X-Me", "customAuthValue": "hush"}, "X-Me", "hush"),
    ("key", {"authModes": "apiKey"}, {"apiKey": "hush"}, "X-API-KEY", "hush"),
    ("key by another name", {"authModes": "apiKey"}, {"apiKey": "hush", "keyParamName": "K"}, "K", "hush"),
    (
        "oauth",
        {"authModes": "oauth"},
        {"oauthTokenURI": "<fake>/token", "clientID": "c", "clientSecret": "hush", "scopes": "a,b"},
        "Authorization",
        "Bearer fresh",
    ),
)
async def test_who_asks(
    metadata: dict[str, str],
    authentication: dict[str, str],
    header: str,
    value: str,
    fake: Fake,
    connections: Connections,
) -> None:
    fake.body = vector('"1"')
    authentication = {name: text.replace("<fake>", fake.url) for name, text in authentication.items()}
    asking = scaler(
        Prometheus, {"serverAddress": fake.url, "query": "q", "threshold": "1", **metadata}, **authentication
    )
    assert await read(connections, asking) == [1.0]
    assert await read(connections, asking) == [1.0]
    assert fake.asked[-1].headers[header] == value
    tokens = [body for request, body in zip(fake.asked, fake.bodies, strict=True) if request.path == "/token"]
    assert len(tokens) == ("oauthTokenURI" in authentication)
    assert all(b"scope=a+b" in body for body in tokens)


@for_each(None, "", 5)
async def test_an_answer_without_a_token_is_no_login(token: object, fake: Fake, connections: Connections) -> None:
    fake.token = token
    login = {"oauthTokenURI": f"{fake.url}/token", "clientID": "c", "clientSecret": "hush"}
    metadata = {"serverAddress": fake.url, "query": "q", "threshold": "1", "authModes": "oauth"}
    [answer] = await read(connections, scaler(Prometheus, metadata, **login))
    assert "oauthTokenURI answered no access token" in str(answer)
    assert {request.path for request in fake.asked} == {"/token"}


@cases(("old enough", 0.0, True), ("just issued", 60.0, False))
async def test_a_token_that_is_refused_is_replaced_unless_it_is_new(
    new: float, replaced: bool, fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scalers.sources.http.oauth.NEW", new)
    fake.body = vector('"1"')
    login = {"oauthTokenURI": f"{fake.url}/token", "clientID": "c", "clientSecret": "hush"}
    metadata = {"serverAddress": fake.url, "query": "q", "threshold": "1", "authModes": "oauth"}
    probe = scaler(Loki, metadata, **login)
    async with reading(5.0) as sources:
        assert await ask(sources, probe) == [Measure(1.0)]
        fake.token, fake.refused = "later", {"fresh"}
        [answer] = await ask(sources, probe)
    assert answer == Measure(1.0) if replaced else "answered 401" in str(answer)
    assert sum(request.path == "/token" for request in fake.asked) == 1 + replaced


URL_LOGIN = "Basic " + base64.b64encode(b"ops:h/ush").decode()


@cases(
    ("alone", {}, {}, URL_LOGIN),
    ("beside a key", {"authModes": "apiKey"}, {"apiKey": "k"}, URL_LOGIN),
    ("not beside a bearer's token", {"authModes": "bearer"}, {"token": "t"}, "Bearer t"),
    ("not beside another login", {"authModes": "basic"}, {"username": "ü", "password": "hush"}, BASIC),
    (
        "not beside a header of that name",
        {"authModes": "custom"},
        {"customAuthHeader": "authorization", "customAuthValue": "mine"},
        "mine",
    ),
    (
        "not beside a token, nor at the server of tokens",
        {"authModes": "oauth"},
        {"oauthTokenURI": "<fake>/token", "clientID": "c", "clientSecret": "s"},
        "Bearer fresh",
    ),
)
async def test_a_login_in_the_url_is_sent_where_nothing_else_says_who_asks(
    metadata: dict[str, str], authentication: dict[str, str], value: str, fake: Fake, connections: Connections
) -> None:
    url = fake.url.replace("http://", "http://ops:h%2Fush@")
    authentication = {name: text.replace("<fake>", url) for name, text in authentication.items()}
    fake.body = vector('"1"')
    asking = scaler(Prometheus, {"serverAddress": url, "query": "q", "threshold": "1", **metadata}, **authentication)
    assert await read(connections, asking) == [1.0]
    assert fake.asked[-1].headers["Authorization"] == value


async def test_a_login_in_the_url_is_never_shown(fake: Fake, connections: Connections) -> None:
    fake.status, fake.body = 500, f"not for h/ush with {URL_LOGIN}".encode()
    url = fake.url.replace("http://", "http://ops:h%2Fush@")
    asking = scaler(Prometheus, {"serverAddress": url, "query": "q", "threshold": "1"})
    [answer] = await read(connections, asking)
    assert str(answer).endswith("answered 500: not for *** with Basic ***")
    assert "ush" not in f"{answer} {asking.server}"
    metrics = scaler(MetricsAPI, {"url": f"{url}/x", "valueLocation": "a", "targetValue": "1"})
    [answer] = await read(connections, metrics)
    assert "answered 500" in str(answer)
    assert "ush" not in str(answer)
    assert fake.asked[-1].headers["Authorization"] == URL_LOGIN


async def test_equal_queries_of_one_second_and_one_login_are_one_request(fake: Fake, connections: Connections) -> None:
    fake.body = vector('"1"')
    logins = ({}, {"token": "one"}, {"token": "two"})
    asking = [
        scaler(
            Prometheus,
            {"serverAddress": fake.url, "query": query, "threshold": "1", **({"authModes": "bearer"} if login else {})},
            **login,
        )
        for query in ("a", "b")
        for login in logins
        for _ in range(20)
    ]
    assert await read(connections, *asking) == [1.0] * 120
    assert await read(connections, *asking) == [1.0] * 120
    told = [(request.path_qs, request.headers.get("Authorization")) for request in fake.asked]
    assert len(set(told)) == len(told), "no request is made twice"
    assert {(request.query["query"], login) for request, (_, login) in zip(fake.asked, told, strict=True)} == {
        (query, login) for query in "ab" for login in (None, "Bearer one", "Bearer two")
    }
    seconds = {request.query["time"] for request in fake.asked}
    assert len(told) <= 6 * len(seconds)


async def test_an_answer_is_understood_by_each_trigger_that_shares_it(fake: Fake, connections: Connections) -> None:
    fake.body = vector()
    metadata = {"serverAddress": fake.url, "query": "q", "threshold": "1"}
    lenient, strict = scaler(Prometheus, metadata), scaler(Prometheus, {**metadata, "ignoreNullValues": "false"})
    found = await read(connections, lenient, strict)
    assert found[0] == 0.0
    assert "answers nothing" in str(found[1])


async def test_a_key_in_the_query(fake: Fake, connections: Connections) -> None:
    fake.body = b'{"a":4}'
    metadata = {"url": f"{fake.url}/v?z=1", "valueLocation": "a", "targetValue": "1", "authMode": "apiKey"}
    assert await read(connections, scaler(MetricsAPI, metadata, apiKey="hush", method="query")) == [4.0]
    assert {**fake.asked[0].query} == {"z": "1", "api_key": "hush"}


@for_each(204, 301, 401, 404, 500)
async def test_a_refusal_is_no_value_and_says_why(status: int, fake: Fake, connections: Connections) -> None:
    fake.status, fake.body = status, b"" if status == 204 else b"no   such\nthing"
    metrics = scaler(MetricsAPI, {"url": fake.url, "valueLocation": "a", "targetValue": "1"})
    [answer] = await read(connections, metrics)
    assert isinstance(answer, SourceError)
    assert f"answered {status}" in str(answer)
    assert len(fake.asked) == 1


@for_each("/elsewhere", "https://user:hush@other.example/login?state=hush")
async def test_a_redirection_is_not_followed_and_the_address_is_named(
    location: str, fake: Fake, connections: Connections
) -> None:
    fake.status, fake.location = 308, location
    metrics = scaler(MetricsAPI, {"url": fake.url, "valueLocation": "a", "targetValue": "1"})
    query = scaler(Prometheus, {"serverAddress": fake.url, "query": "up", "threshold": "1"})
    for answer in (*await read(connections, metrics), *await read(connections, query)):
        assert isinstance(answer, SourceError)
        place = "/elsewhere" if location == "/elsewhere" else "https://other.example/login"
        assert f"answered 308 (redirections are not followed, this one leads to {place})" in str(answer)
        assert "hush" not in str(answer)
    assert len(fake.asked) == 2


async def test_loki_graphite_elasticsearch_and_influxdb(fake: Fake, connections: Connections) -> None:
    base = {"serverAddress": fake.url, "query": "q"}
    fake.body = vector('"2"')
    assert await read(connections, scaler(Loki, {**base, "threshold": "1", "tenantName": "me"})) == [2.0]
    assert fake.asked[-1].headers["X-Scope-OrgID"] == "me"
    assert fake.asked[-1].path == "/loki/api/v1/query"
    graphite = scaler(Graphite, {**base, "queryTime": "-1Hours"})
    for body, expected in [
        (b'[{"target":"q","datapoints":[[1,10],[7.5,20],[null,30]]}]', 7.5),
        (b"[]", 0.0),
        (b'[{"datapoints":[]}]', 0.0),
        (b'[{"datapoints":[[null,1]]}]', "no point that is not null"),
        (b'[{"datapoints":[]},{"datapoints":[]}]', "2 series"),
        (b"<html>", "not a list of series"),
    ]:
        fake.body = body
        [answer] = await read(connections, graphite)
        assert answer == expected if isinstance(expected, float) else expected in str(answer)
    fake.body = b'{"hits":{"total":{"value":9}}}'
    metadata = {"addresses": fake.url, "index": "a;b-*", "valueLocation": "hits.total.value", "targetValue": "1"}
    found = scaler(
        Elasticsearch, {**metadata, "searchTemplateName": "t", "parameters": "x:1;y:2"}, username="u", password="hush"
    )
    assert await read(connections, found) == [9.0]
    assert fake.asked[-1].path == "/a,b-*/_search/template"
    assert fake.bodies[-1] == b'{"id": "t", "params": {"x": "1", "y": "2"}}'
    fake.body = b"#group,false\r\n,result,table,_value\r\n,_result,0,42\r\n"
    flux = scaler(
        InfluxDB,
        {"serverURL": fake.url, "query": "q", "thresholdValue": "1", "organizationName": "o"},
        authToken="hush",
    )
    assert await read(connections, flux) == [42.0]
    assert fake.asked[-1].headers["Authorization"] == "Token hush"
    fake.body = b"error,reference\r\nno bucket,1\r\n"
    [answer] = await read(connections, flux)
    assert "no bucket" in str(answer)


async def test_of_several_addresses_the_first_that_answers_counts(fake: Fake) -> None:
    fake.body = b'{"a":4}'
    connections = Connections(patience=0.1)
    async with hanging() as hung:
        dead = f"http://127.0.0.1:{refusing()},http://127.0.0.1:{hung}"
        metadata = {"index": "i", "query": "{}", "valueLocation": "a", "targetValue": "1"}
        search = scaler(Elasticsearch, {**metadata, "addresses": f"{dead},{fake.url}"}, username="u", password="hush")
        assert await read(connections, search) == [4.0]
        await connections.close()
    [answer] = await read(connections, scaler(Elasticsearch, {**metadata, "addresses": fake.url}, apiKey="k"))
    assert answer == 4.0
    assert fake.asked[-1].headers["Authorization"] == "ApiKey k"
    await connections.close()


async def test_an_endless_answer_is_not_read(connections: Connections) -> None:
    async def pour(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b"x" * 65536)
        except (ConnectionError, asyncio.CancelledError):
            return response

    async with answering(pour) as url:
        [answer] = await read(connections, scaler(MetricsAPI, {"url": url, "valueLocation": "a", "targetValue": "1"}))
    assert "more than 4 MB" in str(answer)


async def test_a_server_that_hangs_or_refuses_is_unknown_and_named() -> None:
    async with hanging() as hung:
        for port, timeout, reason in [(hung, 0.3, "no answer within"), (refusing(), 60.0, "cannot be reached")]:
            address = f"http://127.0.0.1:{port}"
            probe = scaler(Prometheus, {"serverAddress": address, "query": "q", "threshold": "1"})
            async with reading(timeout) as sources:
                [answer] = await ask(sources, probe)
            assert isinstance(answer, str)
            assert reason in answer
            assert address in answer


async def test_a_real_prometheus(tmp_path: Path, connections: Connections) -> None:
    program, port = needs("prometheus", "prometheus"), free_port()
    (tmp_path / "prometheus.yml").write_text(
        f"global: {{scrape_interval: 1s}}\n"
        f"scrape_configs: [{{job_name: self, static_configs: [{{targets: ['127.0.0.1:{port}']}}]}}]\n"
    )
    command = [
        program,
        "--config.file=prometheus.yml",
        f"--web.listen-address=127.0.0.1:{port}",
        f"--storage.tsdb.path={tmp_path / 'data'}",
    ]
    address = f"http://127.0.0.1:{port}"

    def is_ready() -> bool:
        try:
            with urlopen(f"{address}/-/ready", timeout=1) as answer:
                return answer.status == 200
        except OSError:
            return False

    def asking(query: str, **more: str) -> Any:
        return scaler(Prometheus, {"serverAddress": address, "query": query, "threshold": "1", **more})

    async with running(command, tmp_path, is_ready):
        answers = await read(
            connections,
            asking("vector(41) + 1"),
            asking("scalar(vector(7))"),
            asking("nothing_of_this_name"),
            asking("nothing_of_this_name", ignoreNullValues="false"),
            asking("vector(0) / 0"),
            asking("sum("),
            asking('label_replace(vector(1), "a", "x", "", "") or label_replace(vector(1), "a", "y", "", "")'),
        )
        assert answers[:3] == [42.0, 7.0, 0.0]
        assert "answers nothing" in str(answers[3])
        assert answers[4] == 0.0
        assert "answered 400" in str(answers[5])
        assert "2 series" in str(answers[6])
        async with asyncio.timeout(60):
            while (await read(connections, asking("sum(up)")))[0] != 1.0:
                await asyncio.sleep(0.1)


@cases(
    ("the last row", b'[{"time":"2026-11-21T00:00:00","total":3},{"time":"2026-11-21T00:01:00","total":7.5}]', 7.5),
    ("no rows", b"[]", 0.0),
    ("another column", b'[{"sum":1}]', "no column total; there are sum"),
    ("null", b'[{"total":null}]', "total of the last row is null"),
    ("no number", b'[{"total":"many"}]', "total"),
    ("an object", b'{"error":"no database"}', "not a list of rows"),
    ("no row", b"[1]", "not a list of rows"),
    ("no JSON", b"<html>", "not a list of rows"),
)
async def test_influxdb_answers_sql_over_http(
    body: bytes, expected: float | str, fake: Fake, connections: Connections
) -> None:
    fake.body = body
    metadata = {"serverURL": fake.url, "query": "SELECT 1", "thresholdValue": "1", "influxVersion": "3"}
    asking = scaler(
        InfluxDB, {**metadata, "database": "work", "metricKey": "total", "queryType": "FlightSQL"}, authToken="hush"
    )
    [answer] = await read(connections, asking)
    assert answer == expected if isinstance(expected, float) else expected in str(answer)
    assert fake.asked[-1].path == "/api/v3/query_sql"
    assert dict(fake.asked[-1].query) == {"db": "work", "q": "SELECT 1", "format": "json"}
    assert fake.asked[-1].headers["Authorization"] == "Bearer hush"


async def test_a_real_influxdb(tmp_path: Path, connections: Connections) -> None:
    program, port, inner = needs("influxd", "influxdb"), free_port(), free_port()
    (tmp_path / "influxdb.conf").write_text(
        f'bind-address = "127.0.0.1:{inner}"\nreporting-disabled = true\n'
        f'[meta]\ndir = "{tmp_path}/meta"\n[data]\ndir = "{tmp_path}/data"\nwal-dir = "{tmp_path}/wal"\n'
        f'[http]\nbind-address = "127.0.0.1:{port}"\n'
    )
    address = f"http://127.0.0.1:{port}"

    def asking(query: str, column: str = "total") -> Any:
        metadata = {"serverURL": address, "query": query, "thresholdValue": "1", "influxVersion": "3"}
        return scaler(InfluxDB, {**metadata, "database": "work", "metricKey": column}, authToken="hush")

    def has_a_database() -> bool:
        try:
            urlopen(f"{address}/query", data=b"q=CREATE DATABASE work").close()
            with urlopen(f"{address}/query", data=b"q=SHOW DATABASES") as answer:
                return b'["work"]' in answer.read()
        except OSError:
            return False

    async with running([program, "-config", "influxdb.conf"], tmp_path, has_a_database):
        await asyncio.to_thread(lambda: urlopen(f"{address}/write?db=work", data=b"jobs n=3\njobs n=4 99").close())
        answers = await read(
            connections,
            asking("SELECT sum(n) AS total FROM jobs"),
            asking("SELECT sum(n) AS total FROM none"),
            asking("SELECT sum(n) AS total FROM jobs", "missing"),
            asking("SELECT FROM"),
        )
    assert answers[:2] == [7.0, 0.0]
    assert "no column missing; there are time, total" in str(answers[2])
    assert "answered 400" in str(answers[3])
