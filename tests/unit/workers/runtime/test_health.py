"""The health of a process: which parts count as standing still, and how HTTP tells it."""

import asyncio
import json
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from penstock import _healthy
from tests.support.tables import for_each
from workers.errors import UserError
from workers.runtime import health as module
from workers.runtime.health import Health, served


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(module, "TURN", 0.3)
    monkeypatch.setattr(module, "DEADLINE", 0.2)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def health(clock):
    return Health(clock)


@pytest.fixture
def loop(health) -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop that turns on a thread, as the loop of a process does."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    health.loop("event loop", loop)
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def failed(findings):
    return {name: reason for name, reason in findings.items() if reason}


def test_a_process_whose_parts_go_on_is_alive(health, clock, loop):
    sweeping = health.pulse("sweep", within=10.0)
    clock.now += 9
    sweeping()
    clock.now += 9
    assert health.alive() == {"event loop": "", "sweep": ""}


def test_a_loop_that_stands_still_is_told(health, loop):
    go_on = threading.Event()
    loop.call_soon_threadsafe(go_on.wait)
    try:
        assert failed(health.alive()) == {"event loop": "no turn for 0.3 s"}
    finally:
        go_on.set()


def test_a_loop_that_was_closed_is_told(health):
    loop = asyncio.new_event_loop()
    health.loop("event loop", loop)
    loop.close()
    assert failed(health.alive()) == {"event loop": "Event loop is closed"}


def test_a_step_that_does_not_come_round_is_told_and_its_next_round_heals_it(health, clock):
    sweeping = health.pulse("sweep", within=10.0)
    clock.now += 11
    assert failed(health.alive()) == {"sweep": "no progress for 11 s"}
    sweeping()
    clock.now += 1.1
    assert failed(health.alive()) == {}


def test_of_a_step_that_rests_no_progress_is_expected(health, clock):
    turning = health.pulse("Celery", within=10.0)
    turning.rest()
    clock.now += 1000
    assert failed(health.alive()) == {}
    turning()
    clock.now += 11
    assert failed(health.alive()) == {"Celery": "no progress for 11 s"}


@for_each(("return", "ended"), ("raise", "ended: ValueError: broken"), ("cancel", "ended"))
async def test_a_task_that_must_not_end_is_told_when_it_did(end, reason, health):
    async def work():
        if end == "raise":
            raise ValueError("broken")
        if end == "cancel":
            await asyncio.sleep(3600)

    task = asyncio.create_task(work())
    if end == "cancel":
        task.cancel()
    await asyncio.wait([task])
    health.pulse("informers")
    with health.endless({"informers": task}):
        assert failed(health.alive()) == {"informers": reason}
    # Its owner closed it.
    await asyncio.sleep(0)
    assert failed(health._look()) == {}


def test_readiness_names_each_server_that_does_not_answer(health, loop):
    async def answers():
        return None

    async def refuses():
        return "401: who are you"

    async def hangs():
        await asyncio.sleep(3600)

    async def raises():
        raise ConnectionRefusedError("port closed")

    for check in (answers, refuses, hangs, raises):
        health.check(check.__name__, check)
    assert failed(health.ready()) == {
        "refuses": "401: who are you",
        "hangs": "no answer within 0.2 s",
        "raises": "ConnectionRefusedError: port closed",
    }
    assert failed(health.alive()) == {}, "an outage of a server is no reason for a restart"


def test_checks_need_no_loop_of_the_process(health):
    async def answers():
        return "away"

    health.check("broker", answers)
    assert health.ready() == {"broker": "away"}


def test_a_process_that_is_not_alive_is_not_ready(health, clock):
    health.pulse("sweep", within=10.0)
    clock.now += 11
    assert failed(health.ready()) == {"sweep": "no progress for 11 s"}


def test_servers_are_asked_once_a_second_however_many_ask(health, clock, loop):
    asked = []

    async def check():
        asked.append(clock.now)

    health.check("broker", check)
    for _ in range(3):
        health.ready()
    assert len(asked) == 1
    clock.now += 1.0
    health.ready()
    assert len(asked) == 2


def get(port, path, method="GET"):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def test_over_http_a_failed_check_is_a_503_that_names_it(health, clock):
    with served(health, "127.0.0.1:0") as port:
        assert get(port, "/healthz") == (200, b'{"status":"ok","failed":{},"passed":[]}\n')
        health.pulse("sweep", within=10.0)
        clock.now += 11
        status, body = get(port, "/healthz?verbose")
        assert (status, json.loads(body)["failed"]) == (503, {"sweep": "no progress for 11 s"})
        assert get(port, "/readyz", "HEAD") == (503, b"")
        assert get(port, "/metrics")[0] == 404
        assert get(port, "/healthz", "POST")[0] == 501
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", port), timeout=5)


def test_connections_that_say_nothing_leave_probes_their_place(health, monkeypatch):
    monkeypatch.setattr(module, "CONNECTIONS", 2)
    monkeypatch.setattr(module._Handler, "timeout", 0.2)
    with served(health, "127.0.0.1:0") as port:
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(3)]
        # The oldest is closed for the third, the others when their time is up.
        assert [each.recv(1) for each in silent] == [b"", b"", b""]
        # The probe of a busy machine may be read later than that.
        monkeypatch.setattr(module._Handler, "timeout", module.PATIENCE)
        assert get(port, "/healthz")[0] == 200
        for each in silent:
            each.close()


def test_connections_that_send_a_request_forever_leave_probes_their_place(health, monkeypatch):
    monkeypatch.setattr(module, "CONNECTIONS", 2)
    with served(health, "127.0.0.1:0") as port:
        slow = [socket.create_connection(("127.0.0.1", port)) for _ in range(2)]
        for each in slow:
            each.sendall(b"GET /healthz HTTP/1.1\r\nX: ")
        assert get(port, "/healthz")[0] == 200
        for each in slow:
            each.close()


def test_liveness_does_not_wait_for_servers_that_do_not_answer(health, loop, monkeypatch):
    monkeypatch.setattr(module, "DEADLINE", 30.0)
    asked = threading.Event()
    answer = asyncio.Event()

    async def hangs():
        asked.set()
        await answer.wait()

    health.check("broker", hangs)
    asking = threading.Thread(target=health.ready)
    asking.start()
    assert asked.wait(5)
    looked = threading.Event()
    looking = threading.Thread(target=lambda: (health.alive(), looked.set()))
    looking.start()
    try:
        assert looked.wait(5)
    finally:
        loop.call_soon_threadsafe(answer.set)
        asking.join()
        looking.join()


def test_without_an_address_nothing_is_served(health):
    with served(health, "") as port:
        assert port == 0


@for_each("8081", ":x", "127.0.0.1:99999", "127.0.0.1:")
def test_an_address_must_be_host_and_port(address, health):
    with pytest.raises(UserError, match=r"--health: .* must be HOST:PORT"), served(health, address):
        pass


def test_an_address_that_is_taken_is_told(health):
    with (
        served(health, "127.0.0.1:0") as port,
        pytest.raises(UserError, match=f"--health: 127.0.0.1:{port} cannot be listened on"),
        served(health, f"127.0.0.1:{port}"),
    ):
        pass


# `penstock healthy`


def test_the_command_says_yes_by_its_exit_code(health, capsys):
    with served(health, "127.0.0.1:0") as port:
        assert _healthy.main([], {"PENSTOCK_HEALTH": f"0.0.0.0:{port}", "PENSTOCK_GATEWAY": "127.0.0.1:1"}) == 0
    assert capsys.readouterr().out == "ok\n"


def test_the_command_says_no_in_one_line_with_the_reasons(health, clock, capsys):
    async def away():
        return "no answer"

    health.check("broker", away)
    with served(health, "127.0.0.1:0") as port:
        variables = {"PENSTOCK_HEALTH": f":{port}"}
        assert _healthy.main([], variables) == 0
        assert _healthy.main(["--ready"], variables) == 1
        assert capsys.readouterr().err == "penstock: /readyz answers 503: broker: no answer\n"
    assert _healthy.main([], variables) == 1
    assert f"127.0.0.1:{port} does not answer" in capsys.readouterr().err


@for_each(
    ({}, "PENSTOCK_HEALTH names no address"),
    ({"PENSTOCK_GATEWAY": "off"}, "PENSTOCK_HEALTH names no address"),
    ({"PENSTOCK_HEALTH": "8081"}, "PENSTOCK_HEALTH: '8081' must be HOST:PORT"),
    ({"PENSTOCK_GATEWAY": "office:x"}, "PENSTOCK_GATEWAY: 'office:x' must be HOST:PORT"),
    ({"PENSTOCK_GATEWAY": "[::]:x"}, "PENSTOCK_GATEWAY: '[::]:x' must be HOST:PORT"),
)
def test_the_command_needs_an_address(variables, told, capsys):
    assert _healthy.main([], variables) == 1
    assert told in capsys.readouterr().err


def test_the_command_asks_a_gateway_that_serves_its_health_on_its_own_port(health, capsys):
    with served(health, "127.0.0.1:0") as port:
        assert _healthy.main(["--ready"], {"PENSTOCK_GATEWAY": f"127.0.0.1:{port}"}) == 0


def test_what_speaks_another_protocol_is_not_healthy(capsys):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet():
            connection, _ = server.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"220 ready\r\n")

        thread = threading.Thread(target=greet)
        thread.start()
        port = server.getsockname()[1]
        assert _healthy.main([], {"PENSTOCK_HEALTH": f"127.0.0.1:{port}"}) == 1
        thread.join()
    assert "does not speak HTTP" in capsys.readouterr().err


@for_each(
    (["healthy"], True),
    (["healthy", "--ready"], True),
    (["healthy", "--health", ":8081"], False),
    (["healthy", "--help"], False),
    (["worker"], False),
    ([], False),
)
def test_other_command_lines_are_left_to_the_whole_command(words, understood):
    assert _healthy.takes(words) is understood
