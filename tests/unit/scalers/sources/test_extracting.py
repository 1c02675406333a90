"""One number out of JSON, YAML, XML and Prometheus' text."""

from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from penstock.scaler import SourceError
from scalers.sources.http import extracting
from tests.support.tables import cases, for_each

TEXT = b"""# HELP work Work.
# TYPE work gauge
work{queue="a",kind="x"} 3
work{queue="b"} 7
plain 1.5e3
"""

COUNTERS = b"# TYPE jobs counter\njobs 4\n# TYPE done_total counter\ndone_total 5\n"


@cases(
    ("JSON, nested", extracting.from_json, b'{"a":{"b":3}}', "a.b", 3),
    ("JSON, a quantity", extracting.from_json, b'{"a":[{"b":"1k"},{"b":2}]}', "a.0.b", 1000),
    ("JSON, how many", extracting.from_json, b'{"a":[1,2,3]}', "a.#", 3),
    ("JSON, a dot in a name", extracting.from_json, b'{"a.b":4}', r"a\.b", 4),
    ("JSON, null", extracting.from_json, b'{"a":null}', "a", None),
    ("JSON, behind a byte order mark", extracting.from_json, b'\xef\xbb\xbf{"a":5}', "a", 5),
    ("JSON, beside NaN, as Python writes it", extracting.from_json, b'{"a":5,"b":NaN,"c":-Infinity}', "a", 5),
    ("JSON, beside text that is not UTF-8", extracting.from_json, b'{"a":5,"b":"\xe9"}', "a", 5),
    ("JSON, beside a tab in a text", extracting.from_json, b'{"a":5,"b":"x\ty"}', "a", 5),
    ("YAML, a quantity", extracting.from_yaml, b"a:\n- b: 250m\n", "a.0.b", 0.25),
    ("YAML, a text", extracting.from_yaml, b"a: '12'\n", "a", 12),
    ("YAML, to base 16", extracting.from_yaml, b"a: 0x1f\n", "a", 31),
    ("YAML, null", extracting.from_yaml, b"a: ~\n", "a", None),
    ("YAML, nothing", extracting.from_yaml, b"a:\nb: 2", "a", None),
    ("YAML, the last of a name", extracting.from_yaml, b"a: 1\na: 2", "a", 2),
    ("YAML, nested", extracting.from_yaml, b"x: {a: [0]}\na: [{x: 0}, [1, {b: 7, c: [9]}]]\n", "a.1.1.b", 7),
    ("YAML, beside an alias", extracting.from_yaml, b"x: &x {y: 1}\nz: {<<: *x, w: *x}\na: {<<: *x, b: 3}\n", "a.b", 3),
    ("YAML, at an anchor", extracting.from_yaml, b"a: &a 3\n", "a", 3),
    ("YAML, keys that are no texts", extracting.from_yaml, b"? [a]\n: 1\na: 2\n", "a", 2),
    ("XML", extracting.from_xml, b"<r><a><b>3</b></a></r>", "r.a.b", 3),
    ("XML, the second", extracting.from_xml, b"<r><a>1</a><a>2</a></r>", "r.a.1", 2),
    ("text, the first of a name", extracting.from_prometheus, TEXT, "work", 3),
    ("text, by label", extracting.from_prometheus, TEXT, 'work{queue="b"}', 7),
    ("text, by two labels", extracting.from_prometheus, TEXT, 'work{kind="x", queue="a"}', 3),
    ("text, without labels", extracting.from_prometheus, TEXT, "plain", 1500),
    ("text, with a name in quotation marks", extracting.from_prometheus, b'{"work",queue="a"} 2\n', "work", 2),
    ("text, beside longer names", extracting.from_prometheus, b"works 1\nwork_total 2\n\twork 3", "work", 3),
    ("text, a counter without _total", extracting.from_prometheus, COUNTERS, "jobs", 4),
    ("text, a counter with it", extracting.from_prometheus, COUNTERS, "done_total", 5),
)
def test_found(read, body: bytes, path: str, value: float | None) -> None:
    assert read(body, path) == value


@cases(
    ("half an answer", extracting.from_json, b'{"a":', "a", "is not JSON"),
    ("JSON, missing", extracting.from_json, b"{}", "a", "nothing at a"),
    ("JSON, NaN", extracting.from_json, b'{"a":NaN}', "a", "is nan"),
    ("JSON, beyond all numbers", extracting.from_json, b'{"a":1e400}', "a", "is inf"),
    (
        "JSON, nested too deeply",
        extracting.from_json,
        b'{"a":5,"b":' + b"[" * 99_999 + b"]" * 99_999 + b"}",
        "a",
        "is not JSON",
    ),
    ("JSON, true is no number", extracting.from_json, b'{"a":true}', "a", "no number"),
    ("JSON, a text", extracting.from_json, b'{"a":"abc"}', "a", "a text that is no number"),
    ("JSON, an object", extracting.from_json, b'{"a":{}}', "a", "no number"),
    ("no YAML", extracting.from_yaml, b"a: [", "a", "is not YAML"),
    ("YAML, not a number", extracting.from_yaml, b"a: .nan", "a", "is nan"),
    ("YAML, beyond the end", extracting.from_yaml, b"a: [1]", "a.1", "nothing at a.1"),
    ("YAML, below a number", extracting.from_yaml, b"a: 1", "a.b", "nothing at a.b"),
    ("YAML, a list", extracting.from_yaml, b"a: [1]", "a", "no number"),
    ("YAML, a date", extracting.from_yaml, b"a: 2001-12-14", "a", "no number"),
    ("YAML, a tag that is not known", extracting.from_yaml, b"a: !x 1", "a", "no number"),
    ("YAML, empty", extracting.from_yaml, b"", "a", "nothing at a"),
    ("YAML, two documents", extracting.from_yaml, b"a: 1\n---\na: 2", "a", "several documents"),
    ("YAML, broken behind the number", extracting.from_yaml, b"a: 1\nb: [", "a", "is not YAML"),
    ("YAML, an alias", extracting.from_yaml, b"x: &x 1\na: *x", "a", "an alias"),
    ("YAML, through an alias", extracting.from_yaml, b"x: &x {b: 1}\na: *x", "a.b", "an alias"),
    ("YAML, merged", extracting.from_yaml, b"x: &x {b: 1}\na: {<<: *x}", "a.b", "nothing at a.b"),
    ("YAML, too large", extracting.from_yaml, b"a: 1\n#" + b"x" * extracting.LARGEST_YAML, "a", "larger than 256 KB"),
    ("YAML, nested deeply", extracting.from_yaml, b"a: 1\nb: " + b"[" * 900 + b"]" * 900, "a", "200 levels deep"),
    ("YAML, to base 60", extracting.from_yaml, b"a: 1" + b":1" * 100_000, "a", "no number"),
    ("no XML", extracting.from_xml, b"<r>", "r", "is not XML"),
    ("entities", extracting.from_xml, b'<!DOCTYPE r [<!ENTITY x "1">]><r>&x;</r>', "r", "document type"),
    ("no such text", extracting.from_prometheus, b"work{ 3", "work", "not in Prometheus' text"),
    ("text, missing", extracting.from_prometheus, TEXT, 'work{queue="c"}', "nothing at"),
    ("text, no such counter", extracting.from_prometheus, COUNTERS, "jobs_total", "nothing at"),
    ("text, half a counter's name", extracting.from_prometheus, COUNTERS, "done", "nothing at"),
    ("text, not a number", extracting.from_prometheus, b"work NaN\n", "work", "is nan"),
)
def test_refused(read, body: bytes, path: str, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        read(body, path)


def test_of_a_large_exporter_only_the_lines_of_the_metric_are_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    parse = Mock(side_effect=text_string_to_metric_families)
    monkeypatch.setattr("scalers.sources.http.extracting.text_string_to_metric_families", parse)
    others = b"".join(b'other{of="%d",by="work"} 1\n' % number for number in range(1_000))
    assert extracting.from_prometheus(others + TEXT + others, 'work{queue="b"}') == 7
    parse.assert_called_once_with('work{queue="a",kind="x"} 3\nwork{queue="b"} 7')


def test_a_small_document_stays_small() -> None:
    """Ten lines of merges stand for 9 to the power of ten maps."""
    lines = ["k0: &k0 {x: 1}", *(f"k{i}: &k{i} {{<<: [{', '.join([f'*k{i - 1}'] * 9)}]}}" for i in range(1, 10))]
    assert extracting.from_yaml("\n".join([*lines, "v: 5"]).encode(), "v") == 5


@given(body=st.binary(max_size=60), path=st.text("ab.#0*?{}\"'=|@\\", min_size=1, max_size=8))
@for_each(extracting.from_json, extracting.from_yaml, extracting.from_xml)
def test_garbage_is_a_reason_or_a_number(read, body: bytes, path: str) -> None:
    try:
        value = read(body, path)
    except SourceError:
        return
    assert value is None or isinstance(value, float)
