"""Label and field selectors."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.local.apiserver.codec.selectors import field_selector, label_selector, selects
from tests.support.tables import cases
from workers.api.kinds import EVENT, JOB, POD, SCALED_JOB, Kind

LABELS = {"app": "web", "tier": "front", "n": "5", "empty": "", "example.com/x": "y"}


@cases(
    ("nothing is everything", "", True),
    ("equals", "app=web", True),
    ("equals twice", "app==web", True),
    ("blanks around", "app = api", False),
    ("not equal", "app!=api", True),
    ("absent is not equal", "absent!=api", True),
    ("all must hold", "app=web,tier=back", False),
    ("in", "app in (web, api)", True),
    ("not in the list", "app in (api)", False),
    ("notin", "app notin (api)", True),
    ("absent is not in", "absent notin (api)", True),
    ("in an empty list", "absent in ()", False),
    ("the empty text in a list", "empty in (a,)", True),
    ("exists", "app", True),
    ("must not exist", "!app", False),
    ("does not exist", "!absent", True),
    ("equals the empty text", "empty=", True),
    ("greater", "n>4", True),
    ("not greater than itself", "n>5", False),
    ("less", "n<6", True),
    ("not less than itself", "n<5", False),
    ("not a number", "app>4", False),
    ("a prefixed key", "example.com/x=y", True),
    ("a key called in", "in in (a)", False),
)
def test_labels_are_selected(text: str, matches: bool) -> None:
    assert label_selector(text)(LABELS) is matches


@cases(
    ("no key", "=a", "found '='"),
    ("in without a list", "a in b", "expected: '('"),
    ("an open list", "a in (b", "expected: ',' or ')'"),
    ("a comma at the end", "a=b,", "found ''"),
    ("two values", "a=b c", "found 'c'"),
    ("a comparison with a text", "a>b", "must be an integer"),
    ("a malformed key", "-a=b", "Invalid value"),
    ("a malformed value", "a=-b", "Invalid value"),
    ("no operator", "a b", "found 'b'"),
    ("an operator for a value", "a==!b", "found '!'"),
)
def test_malformed_label_selectors_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        label_selector(text)


words = st.text("ab", min_size=1, max_size=2)


@given(st.dictionaries(words, words), words, st.lists(words, min_size=1, max_size=3))
def test_in_and_notin_exclude_each_other(labels: dict[str, str], key: str, values: list[str]) -> None:
    some = ",".join(values)
    assert label_selector(f"{key} in ({some})")(labels) is not label_selector(f"{key} notin ({some})")(labels)


def expression(operator: str, **more: Any) -> dict[str, Any]:
    return {"matchExpressions": [{"key": "x", "operator": operator, **more}]}


@cases(
    ("empty", {}, True),
    ("labels", {"matchLabels": {"app": "web"}}, True),
    ("all labels", {"matchLabels": {"app": "web", "tier": "x"}}, False),
    ("in", expression("In", key="app", values=["web"]), True),
    ("not in", expression("NotIn", key="app", values=["web"]), False),
    ("exists", expression("Exists"), False),
    ("does not exist", expression("DoesNotExist"), True),
)
def test_selector_objects_match(selector: Any, matches: bool) -> None:
    assert selects(selector)(LABELS) is matches


def test_a_selector_object_with_an_unknown_operator_is_refused() -> None:
    with pytest.raises(ValueError, match='"Near" is not a valid'):
        selects(expression("Near"))


BODY = {
    "metadata": {"name": "a,b", "namespace": "default"},
    "spec": {"nodeName": "n1", "hostNetwork": True},
    "status": {"phase": "Running", "succeeded": 2},
    "involvedObject": {"kind": "Job"},
    "source": {"component": "us"},
}


@cases(
    ("nothing is everything", POD, "", True),
    ("namespace", POD, "metadata.namespace=default", True),
    ("an escaped comma", POD, "metadata.name=a\\,b", True),
    ("all must hold", POD, "spec.nodeName=n1,status.phase!=Failed", True),
    ("another phase", POD, "status.phase==Pending", False),
    ("absent is empty", POD, "status.podIP=", True),
    ("a flag", POD, "spec.hostNetwork=true", True),
    ("successful pods", JOB, "status.successful=2", True),
    ("what an event is about", EVENT, "involvedObject.kind=Job", True),
    ("who reported", EVENT, "source=us", True),
    ("a secret's type", Kind("", "v1", "Secret", "secrets"), "type!=Opaque", True),
)
def test_fields_are_selected(kind: Kind, text: str, matches: bool) -> None:
    assert field_selector(text, kind)(BODY) is matches


def test_a_count_that_is_absent_is_zero() -> None:
    assert field_selector("status.successful=0", JOB)({"metadata": {"name": "j"}})


@cases(
    ("unknown field", POD, "spec.foo=1", "field label not supported: spec.foo"),
    ("another kind's field", SCALED_JOB, "spec.nodeName=1", '"spec.nodeName" is not a known field selector'),
    ("a backslash before a letter", POD, r"metadata.name=a\b", r"invalid field selector: invalid escape sequence: \b"),
    ("a backslash at the end", POD, "metadata.name=a\\", "invalid field selector: invalid escape sequence: \\"),
    ("two equals signs", POD, "metadata.name=a=b", "invalid field selector: unescaped character in value: 61"),
    ("an escape in the field", POD, r"metadata\.name=a", r"field label not supported: metadata\.name"),
    (
        "no operator in one of two",
        POD,
        "a,metadata.name=a",
        "invalid selector: 'a,metadata.name=a'; can't understand 'a'",
    ),
    ("a Job's field", JOB, "status.failed=1", 'field label "status.failed" not supported for batchv1.Job'),
    ("no operator", POD, "spec.nodeName", "invalid selector"),
)
def test_malformed_field_selectors_are_refused(kind: Kind, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        field_selector(text, kind)
