"""Texts of an event in a Job: what a path finds, and how Kubernetes reads the text afterwards."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tables import cases
from tests.unit.events.texts import scope
from workers.errors import UserError
from workers.events import substitutions
from workers.events.event_scope import EventScope
from workers.events.substitutions import SubstitutionFailed, variables

DATA = '{"total": 12, "price": 1.5, "paid": true, "gift": null, "items": [{"sku": "a"}, 2], "a-b": "c", "empty": "", '
DATA += '"wei": 12345678901234567890123}'


def rendered(text: str, event: EventScope) -> str:
    return substitutions.render(substitutions.parse(text, "verbatim"), event, "verbatim")


@cases(
    ("an attribute", "id $(event.id)!", "id 4711!"),
    ("several", "$(event.type)$(event.source)", "order.placed/shop"),
    ("a number is JSON", "$(event.data.total)/$(event.data.price)", "12/1.5"),
    ("a number of any size has its digits", "$(event.data.wei)", "12345678901234567890123"),
    ("a boolean and null are JSON", "$(event.data.paid) $(event.data.gift)", "true null"),
    ("an entry of a list", "$(event.data.items[0].sku)$(event.data.items[1])", "a2"),
    ("an object is JSON", "$(event.data.items[0])", '{"sku":"a"}'),
    ("a name with a hyphen", "$(event.data.a-b)", "c"),
    ("an empty text", "<$(event.data.empty)>", "<>"),
    ("a default", "$(event.subject:-none) $(event.data.x.y:-)|$(event.data.items[7]:-a b)", "none |a b"),
    ("no default for what is there", "$(event.id:-none)", "4711"),
    ("an escaped one", "$$(event.id)", "$(event.id)"),
    ("an escaped dollar before one", "$$$(event.id)", "$$4711"),
    ("other variables stay", "$(HOME) $$ $x $", "$(HOME) $$ $x $"),
    ("behind what stays", "$$ $x $(HOME) $(event.id)", "$$ $x $(HOME) 4711"),
    ("an open bracket stays", "$(event.id) $(HOME", "4711 $(HOME"),
)
def test_a_reference_stands_for_the_events_text(text: str, found: str) -> None:
    assert rendered(text, scope(DATA)) == found


@cases(
    ("several", "$(A)-$(B)$(C)", ["A", "B", "C"]),
    ("the event's are left out", "$(event.id) $(A)", ["A"]),
    ("an escaped one", "$$(A) $$$(B)", ["B"]),
    ("a dollar at the end", "$(A) costs 5 $", ["A"]),
    ("alone", "$", []),
    ("no closing bracket", "$(A", []),
    ("no opening one", "$A) $(B)", ["B"]),
)
def test_the_variables_that_kubernetes_expands(text: str, names: list[str]) -> None:
    assert list(variables(text)) == names


@cases(
    ("a missing attribute", "$(event.subject)", "$(event.subject): the event has none"),
    ("a missing name", "$(event.data.items[0].price)", "$(event.data.items[0].price): the event has none"),
    ("a missing entry", "$(event.data.items[9])", "$(event.data.items[9]): the event has none"),
    ("a name of a text", "$(event.data.a-b.c)", "the event has none"),
)
def test_what_is_missing_is_named(text: str, reason: str) -> None:
    with pytest.raises(SubstitutionFailed, match=re.escape(reason)):
        rendered(text, scope(DATA))


@cases(
    ("bytes", scope(data_base64="/w=="), "bytes that are no text"),
    ("a NUL", scope("a\0b"), "NUL"),
    ("a long text", scope("a" * 100_001), "more than 100000 bytes"),
)
def test_what_no_process_can_be_given_fails(event: EventScope, reason: str) -> None:
    with pytest.raises(SubstitutionFailed, match=reason):
        rendered("$(event.data)", event)


@cases(
    ("no path", "$(event.)"),
    ("no closing bracket", "$(event.id"),
    ("no closing bracket behind the dot", "$(event."),
    ("an entry of the event", "$(event[0])"),
    ("an expression", "$(event.data.total + 1)"),
    ("a part of an attribute", "$(event.type.name)"),
    ("an attribute in upper case", "$(event.Type)"),
    ("a dollar in a default", "$(event.id:-$x)"),
    ("one in another", "$(event.data.$(event.id))"),
    ("one in a variable's name", "$(PREFIX_$(event.type))"),
    ("one behind an open bracket", "$(HOME and $(event.id) and )"),
    ("a wildcard", "$(event.data.items[*])"),
)
def test_a_malformed_reference_is_refused(text: str) -> None:
    with pytest.raises(UserError):
        substitutions.parse(text, "expanded")


def expanded(text: str, variables: dict[str, str]) -> str:
    """What the kubelet makes of a text, by the rules of Kubernetes' expansion."""
    found, place = "", 0
    while place < len(text):
        if text[place] == "$" and place + 1 < len(text):
            if text[place + 1] == "(" and (end := text.find(")", place)) > 0:
                name = text[place + 2 : end]
                found += variables.get(name, f"$({name})")
                place = end + 1
                continue
            found += "$" if text[place + 1] == "$" else "$" + text[place + 1]
            place += 2
        else:
            found += text[place]
            place += 1
    return found


_HOSTILE = st.text(alphabet="$()ABevnt.id ", max_size=12) | st.sampled_from(
    ["$(A)", "$$(A)", "$", "A)", "$(", "$$$(A)"]
)
_WRITTEN = st.lists(
    st.sampled_from(
        ["$(event.data)", "$(event.subject)", "$$", "$(A)", "$$(A)", "x", "(", ")", "$x", "(A)", "$$(event.id)"]
    ),
    max_size=6,
)


@given(parts=_WRITTEN, data=_HOSTILE, subject=_HOSTILE)
def test_kubernetes_expands_nothing_of_an_event(parts: list[str], data: str, subject: str) -> None:
    """The kubelet makes the same of the text as of one with the event's words in harmless letters."""
    text = "".join(parts)
    try:
        parsed = substitutions.parse(text, "expanded")
    except UserError:
        return
    variables = {"A": "EXPANDED", "B": "EXPANDED"}
    hostile = expanded(substitutions.render(parsed, scope(data, subject=subject), "expanded"), variables)
    harmless = expanded(substitutions.render(parsed, scope("\u0001", subject="\u0002"), "expanded"), variables)
    assert hostile == harmless.replace("\u0001", data).replace("\u0002", subject)
