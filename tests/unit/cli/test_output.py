"""Tables, durations, YAML and colours of the output."""

import json
from datetime import UTC, datetime, timedelta

import pytest
import yaml

from deploy.cli import output
from tests.support.tables import cases
from workers.errors import Invalid

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("passed", "shown"),
    [
        (timedelta(seconds=-5), "<invalid>"),
        (timedelta(seconds=-1), "0s"),
        (timedelta(seconds=119), "119s"),
        (timedelta(minutes=2), "2m"),
        (timedelta(minutes=9, seconds=59), "9m59s"),
        (timedelta(minutes=10, seconds=5), "10m"),
        (timedelta(minutes=179), "179m"),
        (timedelta(hours=3), "3h"),
        (timedelta(hours=7, minutes=59), "7h59m"),
        (timedelta(hours=8, minutes=1), "8h"),
        (timedelta(hours=47), "47h"),
        (timedelta(hours=48), "2d"),
        (timedelta(days=7, hours=3), "7d3h"),
        (timedelta(days=8, hours=3), "8d"),
        (timedelta(days=729), "729d"),
        (timedelta(days=730), "2y"),
        (timedelta(days=731), "2y1d"),
        (timedelta(days=8 * 365 - 1), "7y364d"),
        (timedelta(days=8 * 365 + 1), "8y"),
    ],
    ids=str,
)
def test_an_age_has_kubernetes_short_form(passed: timedelta, shown: str) -> None:
    assert output.age((NOON - passed).isoformat().replace("+00:00", "Z"), NOON) == shown


def test_no_instant_is_an_unknown_age() -> None:
    assert output.age(None, NOON) == "<unknown>"


def test_what_should_have_happened_already_happens_now() -> None:
    assert output.span(timedelta(seconds=-5)) == "0s"


def test_a_table_is_aligned_and_has_nothing_behind_its_last_column(capsys: pytest.CaptureFixture[str]) -> None:
    output.table(["NAME", "AGE"], [["a-long-name", "1s"], ["b", "10m"]])
    assert capsys.readouterr().out == "NAME          AGE\na-long-name   1s\nb             10m\n"


@cases(
    ("wide", "日次レポート", 12),
    ("half as wide", "ﾚﾎﾟｰﾄ", 5),
    ("as wide as wide ones", "Ａ", 2),
    ("a mark above", "e\u0301", 1),
    ("a picture", "🚀", 2),
    ("letters of one column", "täglich שלום", 12),
    ("nothing to see", "a\u200bb", 2),
    ("written out", "\u202e", 6),
    ("written out, of ASCII", "\x07", 4),
)
def test_columns_follow_what_a_terminal_shows(text: str, shown: int, capsys: pytest.CaptureFixture[str]) -> None:
    output.table(["A", "B"], [[text, "x"], ["", "y"]])
    head, first, second = capsys.readouterr().out.splitlines()
    assert first == f"{output.visible(text)}   x"
    assert (head, second) == (f"A{' ' * (shown + 2)}B", f"{' ' * (shown + 3)}y")


@cases(
    ("a terminal", True, "", True),
    ("NO_COLOR", True, "1", False),
    ("a pipe", False, "", False),
)
def test_colours_are_for_terminals_without_no_color(
    terminal: bool, no_color: str, wanted: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    monkeypatch.setenv("NO_COLOR", no_color)
    output.table(["STATE"], [["Failed"]])
    assert ("\x1b[" in capsys.readouterr().out) is wanted


@cases(
    ("a title of the window", "\x1b]0;mine\x07", r"\x1b]0;mine\x07"),
    ("hidden text", "\x1b[8mhidden", r"\x1b[8mhidden"),
    ("the later block", "\x9b2J\x85", r"\x9b2J\x85"),
    ("a line of its own", "a\x85b", r"a\x85b"),
    ("over the line before", "safe\rwrong\x08\x7f\x00", r"safe\x0dwrong\x08\x7f\x00"),
    ("turned around", "safe\u202e4321\u202c\u2066x\u2069", r"safe\u202e4321\u202c\u2066x\u2069"),
    ("letters, tabs and lines", "\ttäglich\n日次", "\ttäglich\n日次"),
    ("letters from right to left", "שלום", "שלום"),
)
def test_control_characters_in_data_reach_no_terminal(
    text: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    output.say(text)
    output.table([text], [[text]])
    output.note(text)
    told = capsys.readouterr()
    assert told.out == f"{shown}\n" * 3
    assert told.err == f"{shown}\n"
    assert output.reason(ValueError(text)) == " ".join(shown.split())
    for write, read in ((output.as_json, json.loads), (output.as_yaml, yaml.safe_load)):
        written = write({"a": text})
        assert read(written) == {"a": text}
        assert output.visible(written) == written


def test_yaml_keeps_order_and_reads_back_as_it_was() -> None:
    value = {"b": "1", "a": ["x\ny\n", "no", 1, None, {"k": "2020-01-01"}]}
    text = output.as_yaml(value)
    assert text.startswith("b: '1'\n")
    assert "|" in text
    assert yaml.safe_load(text) == value


def test_the_object_that_a_refused_patch_would_make_is_left_out() -> None:
    secret = json.dumps(json.dumps({"data": {"pw": "aHVu"}, "typ": "Opaque"}))
    told = f'"" is invalid: patch: Invalid value: {secret}: strict decoding error: unknown field "typ"'
    error = Invalid("422", status=422, body={"message": told})
    assert output.reason(error) == '"" is invalid: strict decoding error: unknown field "typ"'
