"""docs/reasons.md tells of every reason that the controllers write, and of no other."""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.support.paths import ROOT
from tests.support.tables import cases

PAGE = ROOT / "docs" / "reasons.md"
CONTROLLERS = ROOT / "workers" / "controllers"


@dataclass(frozen=True)
class ReasonRow:
    """One row of the page. about: an Event's type, or a condition with its status."""

    reason: str
    about: str
    kinds: str
    meaning: str
    action: str


def rows(heading: str) -> list[ReasonRow]:
    """Returns the rows of the table below a heading. Raises TypeError for one without five columns."""
    section = PAGE.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line.removeprefix("| ").removesuffix(" |") for line in section.splitlines() if line.startswith("| `")]
    return [ReasonRow(*(cell.strip() for cell in line.split(" | "))) for line in lines]


EVENTS, CONDITIONS = rows("Events"), rows("Conditions")

#: Calls and the position of their reason.
EVENT_CALLS = {"RecordEvent": 1, "with_event": 1}
CONDITION_CALLS = {
    **{"KedaCondition": 1, "StatedCondition": 1, "FlowReady": 1, "ScheduleReady": 1, "NewCondition": 2},
    **{"TimingProblem": 0, "JobEnding": 1, "Refusal": 0, "with_condition": 3, "_put": 2, "put": 3},
}
#: Calls whose reason, or the text at this position, becomes that of an Event later.
CARRIERS = {"TaskProblem": 0, "TimingProblem": 2}
#: Reasons that reach the calls above by another way than an expression of constants: file and expression.
PASSED_ON = {
    ("batch/cronjob/decide.py", "problem.reason"),
    ("batch/cronjob/decide.py", "clock.problem.event"),
    ("batch/cronjob/decide.py", "view.dialect.replaces"),
    ("batch/cronjob/decide.py", "*view.dialect.waits"),
    ("batch/cronjob/due.py", "view.dialect.unparseable"),
    ("batch/cronjob/due.py", "view.dialect.zone"),
    ("batch/cronjob/status.py", "*missing"),
    ("batch/cronjob/status.py", "reason"),
    ("batch/job/decide.py", "end.reason"),
    ("batch/job/ending.py", "found.get('reason') or ''"),
    ("batch/job/status.py", "each['reason'].removeprefix('Job')"),
    ("batch/job/status.py", "each['reason']"),
    ("apps/deployment_status.py", "reason"),
    ("eventjob/decide.py", "*seen.problem"),
    ("eventjob/status.py", "ready.reason"),
    ("keda/scaledobject/status.py", "reason"),
    ("keda/status.py", "*texts"),
    ("pod_stages.py", "reason"),
    ("volcano/job/decide.py", "problem.event"),
    ("volcano/job/transitions.py", "reason"),
    ("volcano/jobflow/decide.py", "ready.reason"),
    ("volcano/podgroup/admission_round.py", "why.reason"),
}
#: Their values: every one of them is also spelled as a text in the controllers.
EVENTS_PASSED_ON = {
    *("BackoffLimitExceeded", "DeadlineExceeded", "MaxFailedIndexesExceeded", "FailedIndexes", "PodFailurePolicy"),
    *("Suspended", "Resumed", "SuccessfulCreate", "SuccessfulDelete"),
    *("UnknownTimeZone", "UnparseableSchedule", "UnexpectedJob", "MissingJob", "JobAlreadyActive"),
    *("InvalidTimeZone", "OrphanedJob", "StaleReference", "ForbidConcurrent", "ReplaceConcurrent"),
    *("ChannelTaken", "ChannelUnreadable", "DeletionWaits", "InvalidSpec", "JobCreateFailed"),
    *("MissingTemplate", "ReconcileFailing", "WaitsForProbe", "EntryGone"),
}
CONDITIONS_PASSED_ON = {
    *("ChannelTaken", "InvalidSpec", "ScaledObjectCheckFailed"),
    *("NewReplicaSetCreated", "FoundNewReplicaSet"),
}
#: What stands in an f-string.
KINDS = ("ScaledJob", "ScaledObject", "TriggerAuthentication", "ClusterTriggerAuthentication")
PARTS = {
    "kind": KINDS,
    "self.KIND": KINDS,
    "verb": ("Activated", "Deactivated"),
    "noun": ("Activation", "Deactivation"),
    "outcome.phase": ("Succeed", "Failed", "Terminated"),
}


@dataclass(frozen=True)
class Use:
    """One call: its place, and the reasons it may write; None where they are passed on."""

    file: str
    text: str
    reasons: frozenset[str] | None


@cache
def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text())


@cache
def constants(file: Path) -> Mapping[str, str]:
    """Returns the texts that a module assigns to names at its top, those of single and of many targets."""
    found: dict[str, str] = {}
    for node in tree(file).body:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                pairs = (
                    zip(target.elts, node.value.elts, strict=False)
                    if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
                    else [(target, node.value)]
                )
                for name, value in pairs:
                    if isinstance(name, ast.Name) and isinstance(value, ast.Constant) and isinstance(value.value, str):
                        found[name.id] = value.value
    return found


@cache
def imported(file: Path) -> Mapping[str, tuple[Path, str]]:
    """Returns the file that each imported name is from, or is, and its name there."""
    found = {}
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                folder = ROOT / node.module.replace(".", "/")
                for path in (folder / f"{alias.name}.py", folder.with_suffix(".py")):
                    if path.is_file():
                        found[alias.asname or alias.name] = (path, alias.name)
                        break
    return found


def resolved(file: Path, scope: ast.AST, node: ast.expr | None) -> frozenset[str] | None:
    """Returns the texts that an expression may have; None if they cannot be read from it."""
    match node:
        case ast.Constant(value=str(text)):
            return frozenset({text})
        case ast.Constant(value=None):
            return frozenset()
        case ast.IfExp(body=body, orelse=orelse):
            one, other = resolved(file, scope, body), resolved(file, scope, orelse)
            return None if one is None or other is None else one | other
        case ast.JoinedStr(values=values):
            return spelled(values)
        case ast.Name(id=name):
            if name in constants(file):
                return frozenset({constants(file)[name]})
            if name in imported(file):
                path, original = imported(file)[name]
                return frozenset({constants(path)[original]}) if original in constants(path) else None
            return local(file, scope, name)
        case ast.Attribute(value=ast.Name(id=module), attr=name) if module in imported(file):
            path, _ = imported(file)[module]
            return frozenset({constants(path)[name]}) if name in constants(path) else None
    return None


def spelled(values: Sequence[ast.expr]) -> frozenset[str] | None:
    texts = {""}
    for value in values:
        parts: Sequence[str] = ()
        if isinstance(value, ast.Constant):
            parts = (str(value.value),)
        elif isinstance(value, ast.FormattedValue):
            parts = PARTS.get(ast.unparse(value.value), ())
        texts = {text + part for text in texts for part in parts}
    return frozenset(texts) or None


def local(file: Path, scope: ast.AST, name: str) -> frozenset[str] | None:
    """Returns the texts that a function assigns to a name of its own."""
    found: set[str] = set()
    for node in ast.walk(scope):
        if not isinstance(node, ast.Assign):
            continue
        for target in node.targets:
            pairs: list[tuple[ast.expr, ast.expr]] = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=False))
            for left, right in pairs:
                if isinstance(left, ast.Name) and left.id == name:
                    texts = resolved(file, ast.Module([], []), right)
                    if texts is None:
                        return None
                    found |= texts
    return frozenset(found) or None


def uses(calls: Mapping[str, int]) -> Iterator[Use]:
    for file in sorted(CONTROLLERS.rglob("*.py")):
        functions = [one for one in ast.walk(tree(file)) if isinstance(one, ast.FunctionDef)]
        # The innermost function of a call comes last and wins.
        scopes = {id(inner): function for function in functions for inner in ast.walk(function)}
        for node in ast.walk(tree(file)):
            if not isinstance(node, ast.Call):
                continue
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called not in calls or (called == "put" and "condition_list" not in ast.unparse(node.func)):
                continue
            place = calls[called]
            starred = next((one for one in node.args[: place + 1] if isinstance(one, ast.Starred)), None)
            reason = starred or (node.args[place] if len(node.args) > place else None)
            if reason is None:
                continue  # a condition or problem without one
            scope = scopes.get(id(node), tree(file))
            texts = None if starred else resolved(file, scope, reason)
            yield Use(file.relative_to(CONTROLLERS).as_posix(), ast.unparse(reason), texts)


def reasons(calls: Mapping[str, int]) -> set[str]:
    return {text for use in uses(calls) for text in use.reasons or ()}


def all_texts() -> set[str]:
    """Returns every text of the controllers."""
    nodes = (node for file in CONTROLLERS.rglob("*.py") for node in ast.walk(tree(file)))
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def known(reason: str) -> bool:
    """False for spellings of an f-string with a kind that never writes it."""
    return not re.fullmatch(rf"({'|'.join(KINDS[2:])})(?!Added|Deleted)\w+", reason) and reason not in NEVER


#: Reasons that the reconciler writes itself, of every kind.
RECONCILERS = {"CreatedWithWarning", "Unreadable"}
#: Spellings of f-strings that none of the kinds writes.
NEVER = {"ScaledJobAdded", "ScaledObjectAdded"}


@cases(("events", EVENTS), ("conditions", CONDITIONS))
def test_the_rows_are_whole_and_in_order(table: Sequence[ReasonRow]) -> None:
    assert table == sorted(table, key=lambda row: (row.reason.lower(), row.about))
    assert all(re.fullmatch("`[^`]+`", row.reason) and row.about and row.kinds and row.meaning for row in table)


def test_every_reason_that_cannot_be_read_from_its_call_is_accounted_for() -> None:
    every = [*uses(EVENT_CALLS), *uses(CONDITION_CALLS), *uses(CARRIERS)]
    assert {(use.file, use.text) for use in every if use.reasons is None} == PASSED_ON


@cases(
    ("events", EVENTS, (EVENT_CALLS | CARRIERS, {"TaskProblem": 0}), RECONCILERS | EVENTS_PASSED_ON),
    ("conditions", CONDITIONS, (CONDITION_CALLS,), CONDITIONS_PASSED_ON),
)
def test_the_table_has_the_reasons_that_controllers_write_and_no_other(
    table: Sequence[ReasonRow], calls: Sequence[Mapping[str, int]], others: set[str]
) -> None:
    written = set().union(*map(reasons, calls))
    assert {row.reason.strip("`") for row in table} == {reason for reason in written if known(reason)} | others


def test_reasons_that_are_passed_on_are_spelled_somewhere() -> None:
    texts = all_texts() | {text.removeprefix("Job") for text in all_texts()}
    assert texts >= EVENTS_PASSED_ON | CONDITIONS_PASSED_ON


def test_a_reason_stands_once_per_type_and_kind() -> None:
    for table in (EVENTS, CONDITIONS):
        keys = [(row.reason, row.about, row.kinds) for row in table]
        assert len(keys) == len(set(keys))
