"""Container output over the API, from files as the kubelet writes them."""

import threading
from pathlib import Path

import pytest

from tests.integration.apiserver.client import Api, pod, until
from tests.support.embedded import Embedded
from tests.support.tables import cases, for_each

LINES = (
    "2026-01-01T00:00:00.000000001Z stdout F one\n"
    "2026-01-01T00:00:01.000000002Z stdout P two \n"
    "2026-01-01T00:00:01.000000003Z stdout F halves\n"
    "2026-01-01T00:00:02.000000004Z stderr F three\n"
)


class Output:
    """One pod that runs on a node, and its files."""

    def __init__(self, embedded: Embedded, api: Api) -> None:
        self.api = api
        body = pod()
        body["spec"]["containers"].append({"name": "side", "image": "none"})
        uid = api.create(api.pods, body)["metadata"]["uid"]
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "worker"}}
        api.create(f"{api.pods}/worker/binding", binding | {"target": {"kind": "Node", "name": "local"}})
        self.folder = embedded.logs / f"{api.namespace}_worker_{uid}"
        self.path = f"{api.pods}/worker/log"

    def write(self, text: str, container: str = "main", restart: int = 0) -> Path:
        file = self.folder / container / f"{restart}.log"
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a") as output:
            output.write(text)
        return file

    def read(self, **query: str | int) -> str:
        answer = self.api.get(self.path, container="main", **query)
        assert answer.code == 200, answer.text
        return answer.text.decode()

    def status(self, **status: object) -> None:
        state = {"name": "main", "image": "none", "imageID": "", "ready": False, "restartCount": 0, **status}
        assert self.api.patch(f"{self.api.pods}/worker/status", {"status": {"containerStatuses": [state]}}).code == 200


@pytest.fixture
def output(embedded: Embedded, ours: Api) -> Output:
    return Output(embedded, ours)


def in_parts(output: Output) -> Path:
    """Writes the lines into three files, as a log that has grown large."""
    first, *middle, last = LINES.splitlines(keepends=True)
    for text, end in ((first, "4-0"), ("".join(middle), "15-0")):
        path = output.write(text)
        path.rename(path.with_name(f"0.log.{end}"))
    return output.write(last)


@cases(
    ("all", {}, "one\ntwo halves\nthree\n"),
    ("last line", {"tailLines": 1}, "three\n"),
    ("as many as are in the last file and the one before", {"tailLines": 3}, "two halves\nthree\n"),
    ("a part of the one before", {"tailLines": 2}, "halves\nthree\n"),
    ("more lines than there are", {"tailLines": 99}, "one\ntwo halves\nthree\n"),
    ("few bytes", {"limitBytes": 6}, "one\ntw"),
)
def test_a_log_in_several_files_is_one(query: dict[str, str | int], text: str, output: Output) -> None:
    in_parts(output)
    assert output.read(**query) == text


def test_a_log_that_goes_on_in_another_file_is_followed(output: Output) -> None:
    path = output.write("2026-01-01T00:00:00.000000001Z stdout F one\n")
    output.status(state={"running": {}})
    answer = output.api.pool.request(
        "GET",
        f"{output.api.url}{output.path}?container=main&follow=1",
        headers=output.api.headers(),
        preload_content=False,
    )
    parts = answer.stream(4)
    read = next(parts)
    output.write("2026-01-01T00:00:01.000000001Z stdout F two\n")
    for number, text in enumerate(("three", "four")):
        # Written aside, so that the file of the log is never missing.
        path.with_name(f"0.log.{number}-0").hardlink_to(path)
        aside = path.with_name("0.log.new")
        aside.write_text(f"2026-01-01T00:00:02.000000001Z stdout F {text}\n")
        aside.replace(path)
    output.status(state={"terminated": {"exitCode": 0}})
    assert read + b"".join(parts) == b"one\ntwo\nthree\nfour\n"


@cases(
    ("all", {}, "one\ntwo halves\nthree\n"),
    ("last line", {"tailLines": 1}, "three\n"),
    ("no line", {"tailLines": 0}, ""),
    ("more lines than there are", {"tailLines": 99}, "one\ntwo halves\nthree\n"),
    ("since", {"sinceTime": "2026-01-01T00:00:02Z"}, "three\n"),
    ("since, elsewhere", {"sinceTime": "2026-01-01T02:00:02+02:00"}, "three\n"),
    ("recent", {"sinceSeconds": 60}, ""),
    ("so many bytes", {"limitBytes": 5}, "one\nt"),
    ("with times", {"tailLines": 1, "timestamps": "true"}, "2026-01-01T00:00:02.000000004Z three\n"),
)
def test_the_part_that_was_asked_for_is_shown(query: dict[str, str | int], text: str, output: Output) -> None:
    output.write(LINES)
    assert output.read(**query) == text


@for_each("soon", "2026-01-01", "2026-01-01T00:00:02", "0001-01-01T00:00:00+14:00")
def test_a_moment_without_a_zone_or_beyond_the_calendar_is_refused(moment: str, output: Output) -> None:
    output.write(LINES)
    assert output.api.get(output.path, container="main", sinceTime=moment).code == 400


@for_each(
    ({"tailLines": -1}, "tailLines"),
    ({"limitBytes": 0}, "limitBytes"),
    ({"sinceSeconds": 0}, "sinceSeconds"),
    ({"sinceSeconds": 1, "sinceTime": "2026-01-01T00:00:02Z"}, "[]"),
)
def test_options_that_make_no_sense_are_refused(query: dict[str, str | int], field: str, api: Api) -> None:
    api.create(api.pods, pod())
    answer = api.get(f"{api.pods}/worker/log", **query)
    assert (answer.code, [cause["field"] for cause in answer.body["details"]["causes"]]) == (422, [field])


def test_the_last_lines_of_a_long_file_are_found(output: Output) -> None:
    output.write("".join(f"2026-01-01T00:00:00.000000000Z stdout F line {n}\n" for n in range(20_000)))
    assert output.read(tailLines=3) == "line 19997\nline 19998\nline 19999\n"


def test_the_run_before_the_last_is_shown_on_demand(output: Output) -> None:
    refused = output.api.get(output.path, container="main", previous="true")
    assert refused.message == 'previous terminated container "main" in pod "worker" not found'
    output.write("2026-01-01T00:00:00.000000000Z stdout F first\n")
    output.write("2026-01-01T00:00:00.000000000Z stdout F second\n", restart=1)
    output.status(restartCount=1)
    assert output.read() == "second\n"
    assert output.read(previous="true") == "first\n"


@cases(
    ("several containers", "", "a container name must be specified for pod worker, choose one of: [main side]"),
    ("unknown container", "other", "container other is not valid for pod worker"),
    ("not started", "main", 'container "main" in pod "worker" is waiting to start: ContainerCreating'),
)
def test_output_that_is_not_there_is_explained(container: str, message: str, output: Output) -> None:
    answer = output.api.get(output.path, **({"container": container} if container else {}))
    assert (answer.code, answer.message) == (400, message)


def test_a_container_that_could_not_be_started_says_why_it_has_no_output(output: Output) -> None:
    output.status(state={"terminated": {"exitCode": 128, "reason": "StartError", "message": "no such program"}})
    answer = output.api.get(output.path, container="main")
    why = 'container "main" in pod "worker" is terminated and has no output: StartError: no such program'
    assert (answer.code, answer.message) == (400, why)


def test_a_pod_that_is_not_there_has_no_output(ours: Api) -> None:
    assert ours.get(f"{ours.pods}/nobody/log").code == 404


def test_output_is_followed_until_the_container_has_ended(output: Output) -> None:
    output.write("2026-01-01T00:00:00.000000000Z stdout F begin\n")
    output.status(state={"running": {}})
    received: list[bytes] = []

    def follow() -> None:
        url = f"{output.api.url}{output.path}?container=main&follow=true"
        answer = output.api.pool.request("GET", url, headers=output.api.headers(), preload_content=False)
        received.extend(answer.stream())

    reader = threading.Thread(target=follow)
    reader.start()
    until(lambda: b"".join(received) == b"begin\n", "the first line")
    output.write("2026-01-01T00:00:00.000000000Z stdout F mid")
    output.write("dle\n2026-01-01T00:00:00.000000000Z stdout F end\n")
    until(lambda: b"".join(received) == b"begin\nmiddle\nend\n", "the other lines")
    assert reader.is_alive()
    output.status(state={"terminated": {"exitCode": 0}})
    until(lambda: not reader.is_alive(), "the end of the output")
    assert b"".join(received) == b"begin\nmiddle\nend\n"
