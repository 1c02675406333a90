"""Label and field selectors."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.local.apiserver.codec.selectors import field_selector, label_selector, selects
from workers.api.kinds import EVENT, JOB, POD, SCALED_JOB, Kind

LABELS = {"app": "web", "tier": "front", "n": "5", "empty": "", "example.com/x": "y"}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        pytest.param("", True, id="nothing is everything"),
        pytest.param("app=web", True, id="equals"),
        pytest.param("app==web", True, id="equals twice"),
        pytest.param("app = api", False, id="blanks around"),
        pytest.param("app!=api", True, id="not equal"),
        pytest.param("absent!=api", True, id="absent is not equal"),
        pytest.param("app=web,tier=back", False, id="all must hold"),
        pytest.param("app in (web, api)", True, id="in"),
        pytest.param("app in (api)", False, id="not in the list"),
        pytest.param("app notin (api)", True, id="notin"),
        pytest.param("absent notin (api)", True, id="absent is not in"),
        pytest.param("absent in ()", False, id="in an empty list"),
        pytest.param("empty in (a,)", True, id="the empty text in a list"),
        pytest.param("app", True, id="exists"),
        pytest.param("!app", False, id="must not exist"),
        pytest.param("!absent", True, id="does not exist"),
        pytest.param("empty=", True, id="equals the empty text"),
        pytest.param("n>4", True, id="greater"),
        pytest.param("n<5", False, id="less"),
        pytest.param("app>4", False, id="not a number"),
        pytest.param("example.com/x=y", True, id="a prefixed key"),
        pytest.param("in in (a)", False, id="a key called in"),
    ],
)
def test_labels_are_selected(text: str, matches: bool) -> None:
    assert label_selector(text)(LABELS) is matches


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("=a", "found '='", id="no key"),
        pytest.param("a in b", "expected: '('", id="in without a list"),
        pytest.param("a in (b", "expected: ',' or ')'", id="an open list"),
        pytest.param("a=b,", "found ''", id="a comma at the end"),
        pytest.param("a=b c", "found 'c'", id="two values"),
        pytest.param("a>b", "must be an integer", id="a comparison with a text"),
        pytest.param("-a=b", "Invalid value", id="a malformed key"),
        pytest.param("a=-b", "Invalid value", id="a malformed value"),
        pytest.param("a b", "found 'b'", id="no operator"),
        pytest.param("a==!b", "found '!'", id="an operator for a value"),
    ],
)
def test_malformed_label_selectors_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        label_selector(text)


words = st.text("ab", min_size=1, max_size=2)


@given(st.dictionaries(words, words), words, st.lists(words, min_size=1, max_size=3))
def test_in_and_notin_divide_the_world(labels: dict[str, str], key: str, values: list[str]) -> None:
    some = ",".join(values)
    assert label_selector(f"{key} in ({some})")(labels) is not label_selector(f"{key} notin ({some})")(labels)


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        pytest.param({}, True, id="empty"),
        pytest.param({"matchLabels": {"app": "web"}}, True, id="labels"),
        pytest.param({"matchLabels": {"app": "web", "tier": "x"}}, False, id="all labels"),
        pytest.param({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}, True, id="in"),
        pytest.param(
            {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}, False, id="not in"
        ),
        pytest.param({"matchExpressions": [{"key": "x", "operator": "Exists"}]}, False, id="exists"),
        pytest.param({"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}, True, id="does not exist"),
    ],
)
def test_selector_objects_match(selector: Any, matches: bool) -> None:
    assert selects(selector)(LABELS) is matches


def test_a_selector_object_with_an_unknown_operator_is_refused() -> None:
    with pytest.raises(ValueError, match='"Near" is not a valid'):
        selects({"matchExpressions": [{"key": "x", "operator": "Near"}]})


BODY = {
    "metadata": {"name": "a,b", "namespace": "default"},
    "spec": {"nodeName": "n1", "hostNetwork": True},
    "status": {"phase": "Running", "succeeded": 2},
    "involvedObject": {"kind": "Job"},
    "source": {"component": "us"},
}


@pytest.mark.parametrize(
    ("kind", "text", "matches"),
    [
        pytest.param(POD, "", True, id="nothing is everything"),
        pytest.param(POD, "metadata.namespace=default", True, id="namespace"),
        pytest.param(POD, "metadata.name=a\\,b", True, id="an escaped comma"),
        pytest.param(POD, "spec.nodeName=n1,status.phase!=Failed", True, id="all must hold"),
        pytest.param(POD, "status.phase==Pending", False, id="another phase"),
        pytest.param(POD, "status.podIP=", True, id="absent is empty"),
        pytest.param(POD, "spec.hostNetwork=true", True, id="a flag"),
        pytest.param(JOB, "status.successful=2", True, id="successful pods"),
        pytest.param(EVENT, "involvedObject.kind=Job", True, id="what an event is about"),
        pytest.param(EVENT, "source=us", True, id="who reported"),
        pytest.param(Kind("", "v1", "Secret", "secrets"), "type!=Opaque", True, id="a secret's type"),
    ],
)
def test_fields_are_selected(kind: Kind, text: str, matches: bool) -> None:
    assert field_selector(text, kind)(BODY) is matches


def test_a_count_that_is_absent_is_zero() -> None:
    assert field_selector("status.successful=0", JOB)({"metadata": {"name": "j"}})


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        pytest.param(POD, "spec.foo=1", "field label not supported: spec.foo", id="unknown field"),
        pytest.param(
            SCALED_JOB, "spec.nodeName=1", '"spec.nodeName" is not a known field selector', id="another kind's field"
        ),
        pytest.param(
            JOB, "status.failed=1", 'field label "status.failed" not supported for batchv1.Job', id="a Job's field"
        ),
        pytest.param(POD, "spec.nodeName", "invalid selector", id="no operator"),
    ],
)
def test_malformed_field_selectors_are_refused(kind: Kind, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        field_selector(text, kind)
