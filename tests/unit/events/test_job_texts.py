"""The template of a Job: where the event's texts may stand, and that they change nothing else."""

import subprocess
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tables import cases
from tests.unit.events.test_substitutions import expanded
from tests.unit.events.texts import scope, template
from workers.api.kinds import Object
from workers.api.penstock_dev.scheduledjob import RunTemplate
from workers.events import job_texts
from workers.events.event_scope import EventScope
from workers.events.substitutions import SubstitutionFailed

MAIN = "spec.jobTemplate.spec.template.spec.containers[0]"


@cases(
    (
        "a program's arguments",
        template({"command": ["ship", "--order", "$(event.id)"], "args": ["$(event.data.total)"]}),
    ),
    ("arguments of an image's entry point", template({"args": ["$(event.id)"]})),
    ("a variable", template({"env": [{"name": "ORDER", "value": "$(event.id)"}]})),
    ("a working directory", template({"workingDir": "/orders/$(event.id)"})),
    ("labels and annotations", template(labels={"order": "$(event.id)"}, annotations={"note": "$(event.data)"})),
    ("a shell's positional argument", template({"command": ["sh", "-c", 'ship "$1"', "ship", "$(event.id)"]})),
    ("an argument behind a script's name", template({"command": ["python", "/app/ship.py", "$(event.id)"]})),
    (
        "a variable that the script reads",
        template({"command": ["bash", "-lc", 'ship "$ORDER"'], "env": [{"name": "ORDER", "value": "$(event.id)"}]}),
    ),
    ("a program behind env and a user", template({"command": ["env", "-S", "gosu app ship --order", "$(event.id)"]})),
    ("a program behind env", template({"command": ["env", "A=1", "ship", "$(event.id)"]})),
    ("an option -S of another program", template({"command": ["tar", "-S", "sh -c", "$(event.id)"]})),
    ("a program whose name has a space", template({"command": ["sh -c", "$(event.id)"]})),
    ("an argument behind words split at once", template({"command": ["env", "-Sship", "sh -c", "$(event.id)"]})),
    (
        "another variable in a script",
        template({"command": ["sh", "-c", "echo $(GREETING)"], "env": [{"name": "GREETING", "value": "hello"}]}),
    ),
    ("an escaped reference in a script", template({"command": ["sh", "-c", "echo '$$(event.id)'"]})),
    ("an initial container", template(pod={"initContainers": [{"name": "i", "image": "i", "args": ["$(event.id)"]}]})),
)
def test_an_event_may_stand_here(wanted: RunTemplate) -> None:
    assert list(job_texts.problems(wanted)) == []


@cases(
    ("the image", template({"image": "worker:$(event.id)"}), f"{MAIN}.image"),
    (
        "the service account",
        template(pod={"serviceAccountName": "$(event.subject)"}),
        "spec.jobTemplate.spec.template.spec.serviceAccountName",
    ),
    (
        "a volume",
        template(pod={"volumes": [{"name": "v", "hostPath": {"path": "$(event.subject)"}}]}),
        "spec.jobTemplate.spec.template.spec.volumes[0].hostPath.path",
    ),
    ("a node", template(pod={"nodeName": "$(event.id)"}), "spec.jobTemplate.spec.template.spec.nodeName"),
    ("a variable's name", template({"env": [{"name": "$(event.id)", "value": "x"}]}), f"{MAIN}.env[0].name"),
    (
        "a Secret's name",
        template({"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "$(event.id)", "key": "k"}}}]}),
        f"{MAIN}.env[0].valueFrom.secretKeyRef.name",
    ),
    (
        "a probe",
        template({"livenessProbe": {"exec": {"command": ["$(event.id)"]}}}),
        f"{MAIN}.livenessProbe.exec.command[0]",
    ),
    ("a label's name", template(labels={"$(event.id)": "x"}), "spec.jobTemplate.metadata.labels (name)"),
)
def test_an_event_may_not_stand_here(wanted: RunTemplate, field: str) -> None:
    found = dict(job_texts.problems(wanted))
    assert "may not stand here" in found[field]


def _run(*command: str, env: dict[str, str] | None = None, args: tuple[str, ...] = ()) -> RunTemplate:
    variables = [{"name": name, "value": value} for name, value in (env or {}).items()]
    return template({"command": list(command), "args": list(args), "env": variables})


@cases(
    ("a shell's script", _run("sh", "-c", "echo $(event.id)"), "command[2]"),
    ("a login shell's script", _run("/bin/bash", "-lc", "echo $(event.id)"), "command[2]"),
    ("a script in the arguments", _run("bash", args=("-c", "echo $(event.id)")), "args[1]"),
    ("a script behind options", _run("bash", "-o", "pipefail", "-c", "echo $(event.id)"), "command[4]"),
    ("a script behind env", _run("/usr/bin/env", "bash", "-c", "echo $(event.id)"), "command[3]"),
    ("a script behind an init", _run("tini", "--", "sh", "-ec", "echo $(event.id)"), "command[4]"),
    ("the name of a script", _run("sh", "$(event.id)"), "command[1]"),
    ("an option of a shell", _run("sh", "-$(event.id)", "x"), "command[1]"),
    ("Python", _run("python3.11", "-c", "print('$(event.id)')"), "command[2]"),
    ("Python behind an option", _run("python", "-W", "ignore", "-c", "$(event.id)"), "command[4]"),
    ("Node", _run("node", "-e", "$(event.id)"), "command[2]"),
    ("Node with an equals sign", _run("node", "--eval=$(event.id)"), "command[1]"),
    ("Perl", _run("perl", "-ne", "$(event.id)"), "command[2]"),
    ("Perl's second", _run("perl", "-e", "1;", "-e", "$(event.id)"), "command[4]"),
    ("Ruby", _run("ruby", "-e", "$(event.id)"), "command[2]"),
    ("SQL", _run("psql", "shop", "-c", "SELECT '$(event.id)'"), "command[3]"),
    ("awk", _run("awk", "{print $(event.id)}"), "command[1]"),
    ("the program", _run("$(event.type)"), "command[0]"),
    ("the program behind env", _run("env", "A=1", "$(event.type)"), "command[2]"),
    ("the program behind timeout", _run("timeout", "5", "$(event.type)"), "command[2]"),
    ("a script behind split words", _run("env", "-S", "sh -c", "$(event.id)"), "command[3]"),
    ("a script whose words are split with it", _run("env", "-S", "sh -c $(event.id)"), "command[2]"),
    ("an option of code that is split with it", _run("env", "A=1", "-S", "bash -l", "-c", "$(event.id)"), "command[5]"),
    ("a script behind words split at once", _run("env", "--split-string=sh -c", "$(event.id)"), "command[2]"),
    ("a script behind words that follow their option", _run("env", "-Ssh -c", "$(event.id)"), "command[2]"),
    ("a script of joined words", _run("watch", "ls", "$(event.id)"), "command[2]"),
    ("a script elsewhere", _run("ssh", "host", "ls", "$(event.id)"), "command[3]"),
    ("a shell with its version", _run("ksh93", "-c", "$(event.id)"), "command[2]"),
    ("a shell of Windows", _run("C:\\bin\\bash.exe", "-c", "$(event.id)"), "command[2]"),
    ("the program behind a user", _run("gosu", "app", "$(event.type)"), "command[2]"),
    ("the program behind a user's option", _run("sudo", "-u", "app", "$(event.type)"), "command[3]"),
    ("the program behind a priority", _run("ionice", "-c", "2", "$(event.type)"), "command[3]"),
    ("a function of a shell", _run("ship", env={"BASH_FUNC_ls%%": "$(event.id)"}), "env[0].value"),
    ("a variable in a script", _run("sh", "-c", "echo $(ORDER)", env={"ORDER": "$(event.id)"}), "command[2]"),
    (
        "a variable of a variable in a script",
        _run("sh", "-c", "echo $(B)", env={"A": "$(event.id)", "B": "x$(A)"}),
        "command[2]",
    ),
    ("Penstock's variable in a script", _run("sh", "-c", "echo $(PENSTOCK_EVENT_SUBJECT)"), "command[2]"),
    ("a trace's state in a script", _run("sh", "-c", "echo $(TRACESTATE)"), "command[2]"),
    ("a variable that shells load", _run("ship", env={"BASH_ENV": "$(event.id)"}), "env[0].value"),
    ("a variable that the linker loads", _run("ship", env={"LD_PRELOAD": "$(event.id)"}), "env[0].value"),
)
def test_an_event_is_never_code(wanted: RunTemplate, field: str) -> None:
    assert list(dict(job_texts.problems(wanted))) == [f"{MAIN}.{field}"]


def test_an_annotation_as_a_variable_is_not_code_either() -> None:
    origin = {"fieldRef": {"fieldPath": "metadata.annotations['penstock.dev/event']"}}
    wanted = template({"command": ["sh", "-c", "echo $(E)"], "env": [{"name": "E", "valueFrom": origin}]})
    assert list(dict(job_texts.problems(wanted))) == [f"{MAIN}.command[2]"]


def test_what_an_event_lacks_is_named_by_its_place_in_the_template() -> None:
    with pytest.raises(SubstitutionFailed) as refused:
        job_texts.filled(template({"args": ["$(event.data.zip)"]}), scope("{}"))
    assert str(refused.value).startswith(f"{MAIN}.args: ")


@cases(
    ("a valid one", scope(subject="Order-1.a_b"), "Order-1.a_b"),
    ("an empty one", scope('{"s": ""}'), None),
    ("a space", scope(subject="a b"), None),
    ("too long", scope(subject="a" * 64), None),
    ("a line", scope(subject="a\nb"), None),
    ("a hyphen at its end", scope(subject="a-"), None),
)
def test_labels_get_valid_values_only(event: EventScope, value: str | None) -> None:
    wanted = template(labels={"order": "$(event.subject)"})
    if value is None:
        with pytest.raises(SubstitutionFailed, match=r"metadata\.labels\[order\]"):
            job_texts.filled(wanted, event)
    else:
        assert job_texts.filled(wanted, event)["metadata"]["labels"] == {"order": value}


def test_texts_of_an_event_are_together_bounded() -> None:
    wanted = template({"args": ["$(event.data)"] * 6})
    with pytest.raises(SubstitutionFailed, match="too long for one Job"):
        job_texts.filled(wanted, scope("a" * 100_000))


FULL = template(
    {
        "command": ["ship", "--order=$(event.data)", "$(event.subject)"],
        "args": ["$$x", "$(HOME)$(event.data)"],
        "env": [{"name": "A", "value": "$(event.data)"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}],
        "workingDir": "/$(event.data)/$$(event.data)",
    },
    annotations={"note": "$(event.data)", "how": "$$(event.data)"},
    pod={"initContainers": [{"name": "first", "args": ["$(event.data)", "$$(event.data)"]}]},
)


def test_every_place_has_its_text() -> None:
    """In commands and variables Kubernetes makes one `$` of two."""
    found = job_texts.filled(FULL, scope("five $", subject="s"))
    first = {"name": "first", "args": ["five $$", "$$(event.data)"]}
    main = {
        "name": "main",
        "image": "worker",
        "command": ["ship", "--order=five $$", "s"],
        "args": ["$$x", "$(HOME)five $$"],
        "env": [{"name": "A", "value": "five $$"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}],
        "workingDir": "/five $/$(event.data)",
    }
    metadata = {"annotations": {"note": "five $", "how": "$(event.data)"}}
    inner = {"metadata": metadata, "spec": {"containers": [main], "initContainers": [first]}}
    assert found == {"metadata": metadata, "spec": {"template": inner}}


def test_all_problems_of_a_template_are_told() -> None:
    first = {
        "image": "$(event.id)",
        "command": ["sh", "-c", "$(event.id)"],
        "args": ["$(event.nope"],
        "workingDir": "/a/$(event.)",
        "env": [
            {"name": "PATH", "value": "$(event.id)"},
            {"name": "L", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['x']"}}},
            {"name": "$(event.id)", "value": "x"},
        ],
    }
    second = {"name": "i", "image": "i", "command": ["$(event.type)"]}
    third = {**second, "command": ["timeout", "5", "$(L)"], "env": first["env"][1:2]}
    nowhere = (
        "$(event…) may not stand here; it may in commands, arguments, variables, working directories, labels and "
        "annotations"
    )
    advice = "read the variable PENSTOCK_EVENT_DATA or the file /var/run/penstock/event in it instead"
    code = f"reads it as code or as an option, and an event could say anything: {advice}"
    pod = MAIN.removesuffix(".containers[0]")
    assert list(job_texts.problems(template(first, pod={"initContainers": [second, third]}))) == [
        (f"{MAIN}.image", nowhere),
        (f"{MAIN}.args[0]", "'$(event.nope' has no closing bracket"),
        (f"{MAIN}.workingDir", "$(event.) is malformed; an example is $(event.data.items[0].sku)"),
        (f"{MAIN}.env[2].name", nowhere),
        (f"{pod}.initContainers[0].command[0]", "an event may not say which program runs"),
        (f"{pod}.initContainers[1].command[2]", f"timeout {code}"),
        (f"{MAIN}.env[0].value", "PATH says which code programs load, and an event may not"),
        (f"{MAIN}.command[2]", f"sh {code}"),
    ]


@cases(("it fits", "", 200_000), ("it does not", "c", None))
def test_one_text_is_bounded(more: str, length: int | None) -> None:
    event = scope("a" * 100_000, subject="b" * 100_000)
    wanted = template({"args": [f"$(event.data)$(event.subject){more}"]})
    if length is None:
        with pytest.raises(SubstitutionFailed, match="too long"):
            job_texts.filled(wanted, event)
        return
    [container] = job_texts.filled(wanted, event)["spec"]["template"]["spec"]["containers"]
    assert len(container["args"][0]) == length


def _shape(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _shape(each) for key, each in value.items()}
    return [_shape(each) for each in value] if isinstance(value, list) else type(value)


@given(data=st.text(max_size=30), subject=st.text(max_size=10))
def test_the_job_has_the_same_structure_for_every_event(data: str, subject: str) -> None:
    event = scope(data, subject=subject)
    try:
        found = job_texts.filled(FULL, event)
    except SubstitutionFailed:
        return
    body: Object = {"metadata": FULL.metadata, "spec": FULL.spec}
    assert _shape(found) == _shape(body)
    [container] = found["spec"]["template"]["spec"]["containers"]
    assert expanded(container["command"][1], {"A": "EXPANDED"}) == f"--order={data}"
    assert (container["name"], container["image"]) == ("main", "worker")


def test_a_shell_sees_exactly_the_text() -> None:
    """The words are run as the kubelet would run them."""
    hostile = "$(touch /tmp/x) `id` '\" \\ $HOME $(PATH)\n; exit 7 && $$(A) *"
    wanted = _run("sh", "-c", 'printf "%s|%s" "$1" "$ORDER"', "ship", "$(event.data)", env={"ORDER": "<$(event.data)>"})
    assert list(job_texts.problems(wanted)) == []
    [container] = job_texts.filled(wanted, scope(hostile))["spec"]["template"]["spec"]["containers"]
    variables = {each["name"]: expanded(each["value"], {}) for each in container["env"]}
    words = [expanded(word, {"PATH": "/bin", **variables}) for word in container["command"]]
    found = subprocess.run(
        words, env={"PATH": "/bin:/usr/bin", **variables}, capture_output=True, text=True, check=True
    )
    assert found.stdout == f"{hostile}|<{hostile}>"
