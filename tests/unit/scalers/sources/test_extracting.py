"""One number out of JSON, YAML, XML and Prometheus' text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.scaler import SourceError
from scalers.sources.http import extracting

TEXT = b"""# HELP work Work.
# TYPE work gauge
work{queue="a",kind="x"} 3
work{queue="b"} 7
plain 1.5e3
"""

COUNTERS = b"# TYPE jobs counter\njobs 4\n# TYPE done_total counter\ndone_total 5\n"


@pytest.mark.parametrize(
    ("read", "body", "path", "value"),
    [
        pytest.param(extracting.from_json, b'{"a":{"b":3}}', "a.b", 3, id="JSON, nested"),
        pytest.param(extracting.from_json, b'{"a":[{"b":"1k"},{"b":2}]}', "a.0.b", 1000, id="JSON, a quantity"),
        pytest.param(extracting.from_json, b'{"a":[1,2,3]}', "a.#", 3, id="JSON, how many"),
        pytest.param(extracting.from_json, b'{"a.b":4}', r"a\.b", 4, id="JSON, a dot in a name"),
        pytest.param(extracting.from_json, b'{"a":null}', "a", None, id="JSON, null"),
        pytest.param(extracting.from_yaml, b"a:\n- b: 250m\n", "a.0.b", 0.25, id="YAML, a quantity"),
        pytest.param(extracting.from_xml, b"<r><a><b>3</b></a></r>", "r.a.b", 3, id="XML"),
        pytest.param(extracting.from_xml, b"<r><a>1</a><a>2</a></r>", "r.a.1", 2, id="XML, the second"),
        pytest.param(extracting.from_prometheus, TEXT, "work", 3, id="text, the first of a name"),
        pytest.param(extracting.from_prometheus, TEXT, 'work{queue="b"}', 7, id="text, by label"),
        pytest.param(extracting.from_prometheus, TEXT, 'work{kind="x", queue="a"}', 3, id="text, by two labels"),
        pytest.param(extracting.from_prometheus, TEXT, "plain", 1500, id="text, without labels"),
        pytest.param(extracting.from_prometheus, COUNTERS, "jobs", 4, id="text, a counter without _total"),
        pytest.param(extracting.from_prometheus, COUNTERS, "done_total", 5, id="text, a counter with it"),
    ],
)
def test_found(read, body: bytes, path: str, value: float | None) -> None:
    assert read(body, path) == value


@pytest.mark.parametrize(
    ("read", "body", "path", "message"),
    [
        pytest.param(extracting.from_json, b'{"a":', "a", "is not JSON", id="half an answer"),
        pytest.param(extracting.from_json, b"{}", "a", "nothing at a", id="JSON, missing"),
        pytest.param(extracting.from_json, b'{"a":true}', "a", "no number", id="JSON, true is no number"),
        pytest.param(extracting.from_json, b'{"a":"abc"}', "a", "a text that is no number", id="JSON, a text"),
        pytest.param(extracting.from_json, b'{"a":{}}', "a", "no number", id="JSON, an object"),
        pytest.param(extracting.from_yaml, b"a: [", "a", "is not YAML", id="no YAML"),
        pytest.param(extracting.from_yaml, b"a: .nan", "a", "is nan", id="YAML, not a number"),
        pytest.param(extracting.from_yaml, b"a: [1]", "a.1", "nothing at a.1", id="YAML, beyond the end"),
        pytest.param(extracting.from_xml, b"<r>", "r", "is not XML", id="no XML"),
        pytest.param(
            extracting.from_xml, b'<!DOCTYPE r [<!ENTITY x "1">]><r>&x;</r>', "r", "document type", id="entities"
        ),
        pytest.param(extracting.from_prometheus, b"work{ 3", "work", "not in Prometheus' text", id="no such text"),
        pytest.param(extracting.from_prometheus, TEXT, 'work{queue="c"}', "nothing at", id="text, missing"),
        pytest.param(extracting.from_prometheus, COUNTERS, "jobs_total", "nothing at", id="text, no such counter"),
        pytest.param(extracting.from_prometheus, COUNTERS, "done", "nothing at", id="text, half a counter's name"),
        pytest.param(extracting.from_prometheus, b"work NaN\n", "work", "is nan", id="text, not a number"),
    ],
)
def test_refused(read, body: bytes, path: str, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        read(body, path)


@given(body=st.binary(max_size=60), path=st.text("ab.#0*?{}\"'=|@\\", min_size=1, max_size=8))
@pytest.mark.parametrize("read", [extracting.from_json, extracting.from_yaml, extracting.from_xml])
def test_garbage_is_a_reason_or_a_number(read, body: bytes, path: str) -> None:
    try:
        value = read(body, path)
    except SourceError:
        return
    assert value is None or isinstance(value, float)
