"""The rules below the decision, each by itself: slots of several schedules, names, and the concurrency policy."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from tests.support.tables import cases, for_each
from tests.unit.controllers.batch.cronjob.cronjobs import NOON, after, scheduled_job
from workers.api.kinds import CRON_JOB, SCHEDULED_JOB
from workers.api.penstock_dev import scheduledjob as manifest
from workers.controllers.batch.cronjob import due, names, starting, timetable
from workers.controllers.batch.cronjob.run_requests import RunRequest
from workers.controllers.batch.cronjob.starting import MAX_STARTS, Choice

SCHEDULES = st.sampled_from(
    ["* * * * *", "*/7 * * * *", "0 */3 * * *", "30 10,11,12 * * 1-5", "@every 17m", "@every 40s", "15 */20 * * * *"]
)
WINDOWS = st.builds(
    lambda start, length: {
        "start": after(60 * start).isoformat().replace("+00:00", "Z"),
        "end": after(60 * (start + length)).isoformat().replace("+00:00", "Z"),
    },
    st.integers(-300, 900),
    st.integers(1, 400),
)
RECURRING = st.builds(
    lambda schedule, length: {"schedule": schedule, "durationSeconds": length},
    st.sampled_from(["0 * * * *", "*/45 * * * *", "0 13-15 * * *", "@every 50m"]),
    st.integers(1, 5000),
)
DATES = st.just({"dates": ["2026-03-02"], "timeZone": "America/New_York"})


def table(schedules, exclusions=(), **spec):
    body = scheduled_job(
        schedules[0], schedules=[{"schedule": each} for each in schedules[1:]] or None, exclusions=exclusions, **spec
    )
    return timetable.of(manifest.parse(body).spec, uid="u", seconds=True, created=NOON, since=NOON)


def one_by_one(of, since, until):
    """All slots, each asked for by itself."""
    found = []
    while (slot := of.next(since)) is not None and slot <= until:
        found.append(slot)
        since = slot
    return found


@given(
    st.lists(SCHEDULES, min_size=1, max_size=3),
    st.lists(WINDOWS | RECURRING | DATES, max_size=3),
    st.integers(0, 2000),
    st.integers(0, 700),
    st.integers(1, 50),
)
def test_the_newest_slots_are_the_last_of_all(schedules, exclusions, first, length, count):
    of = table(schedules, exclusions)
    since, until = after(60 * first), after(60 * (first + length))
    everything = one_by_one(of, since, until)
    found, older = of.newest(since, until, count)
    assert found == everything[-count:]
    assert older or len(everything) <= count


@given(
    st.lists(SCHEDULES, min_size=1, max_size=3), st.lists(WINDOWS | RECURRING | DATES, max_size=3), st.integers(0, 900)
)
def test_a_slot_is_one_of_its_schedule_and_not_excluded(schedules, exclusions, minutes):
    of = table(schedules, exclusions)
    if slot := of.next(after(60 * minutes)):
        assert slot > after(60 * minutes)
        assert of.exclusions.around(slot) is None
        assert of.line(slot).text in schedules
        assert table([of.line(slot).text]).newest(NOON, slot, 1)[0] == [slot]


@given(
    st.lists(SCHEDULES, min_size=1, max_size=3),
    st.lists(WINDOWS | RECURRING | DATES, max_size=3),
    st.integers(0, 5000),
    st.integers(0, 900),
)
def test_jitter_keeps_the_order_and_leads_into_no_excluded_time(schedules, exclusions, jitter, minutes):
    of = table(schedules, exclusions, jitterSeconds=jitter)
    if slot := of.next(after(60 * minutes)):
        due = of.fires(slot)
        following = of.next(slot)
        assert slot <= due <= slot + timedelta(seconds=jitter)
        assert following is None or due < following
        assert of.exclusions.around(due) is None


@given(
    st.lists(SCHEDULES, min_size=1, max_size=2),
    st.sampled_from(["Latest", "All", "None"]),
    st.sampled_from(["Allow", "Forbid", "Replace"]),
    st.integers(1, 30),
    st.none() | st.integers(0, 5000),
    st.integers(0, 300),
    st.sets(st.integers(0, 40)),
    st.integers(0, 40),
)
def test_every_slot_that_is_passed_was_started_or_is_counted(
    schedules, catch_up, policy, limit, deadline, minutes, had, begun
):
    """And what may still start is never passed over."""
    of = table(schedules)
    spec = manifest.parse(
        scheduled_job(
            catchUp={"policy": catch_up, "limit": limit},
            concurrencyPolicy=policy,
            **({} if deadline is None else {"startingDeadlineSeconds": deadline}),
        )
    ).spec
    now = after(60 * minutes)
    slots = one_by_one(of, NOON, now)
    started = {slot for number, slot in enumerate(reversed(slots)) if number in had}
    found = due.of(of, spec, NOON, now, started=started.__contains__)
    starting = found.open[:begun]
    settled = found.settled(starting)
    handled = started | set(starting)
    waiting = [slot for slot in found.open if slot not in starting]
    if settled.through is None:
        assert waiting or not slots
        return
    assert all(slot > settled.through for slot in waiting)
    passed = [slot for slot in slots if slot <= settled.through]
    missed = [slot for slot in passed if slot not in handled]
    assert settled.missed == len(missed) or (settled.capped and settled.missed <= len(missed))
    assert settled.scheduled == max((slot for slot in passed if slot in handled), default=None)


MOMENTS = st.integers(1_000_000_000, 7_000_000_000).map(lambda seconds: datetime.fromtimestamp(seconds, UTC))
_LABEL = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"
OBJECTS = st.builds(
    lambda part, length: (part * length)[:length].rstrip("-."),
    st.from_regex(rf"{_LABEL}(\.{_LABEL})*", fullmatch=True),
    st.integers(1, 253),
)


@given(OBJECTS, MOMENTS, MOMENTS, st.integers(1, 1001), st.from_regex(r"[a-z]{1,20}", fullmatch=True))
def test_names_of_scheduledjobs_fit_and_are_distinct(owner, one, other, number, id):
    of = names.of(SCHEDULED_JOB, owner)
    assert (of.slot(one) == of.slot(other)) is (one == other)
    assert of.slot(one) != of.manual(id)
    for run in (of.slot(one), of.manual(id)):
        name = names.attempt(run, number)
        assert len(name) <= names.LONGEST
        assert ".-" not in name.removeprefix(owner)
        assert names.run_of(name, number) == run


@given(st.from_regex(r"[a-z]{1,52}", fullmatch=True), MOMENTS)
def test_names_of_cronjobs_are_kubernetes_own(owner, moment):
    of = names.of(CRON_JOB, owner)
    minute = moment.replace(second=0)
    assert of.slot(moment) == f"{owner}-{int(moment.timestamp()) // 60}"
    assert of.slot_of(of.slot(moment)) == minute
    assert of.slot_of(f"{owner}-{int(moment.timestamp())}") == moment


@for_each("report", "report-", "report-x", "report--5", "other-29539441", "report-12345678901", "report-1²")
def test_other_names_stand_for_no_slot(name):
    assert names.of(CRON_JOB, "report").slot_of(name) is None


A, B = RunRequest("a", {}), RunRequest("b", {})
SLOTS = tuple(after(60 * number) for number in range(3))
CHOICES = {
    "nothing is wanted": ("Allow", False, (), (), Choice()),
    "allow: everything": ("Allow", True, (A, B), SLOTS, Choice((A, B), SLOTS)),
    "forbid: who asked goes first, alone": ("Forbid", False, (A, B), SLOTS, Choice((A,))),
    "forbid: the oldest slot": ("Forbid", False, (), SLOTS, Choice((), SLOTS[:1])),
    "forbid: all wait": ("Forbid", True, (A,), SLOTS, Choice(waits=True)),
    "forbid: nothing waits": ("Forbid", True, (), (), Choice()),
    "replace: the newest slot": ("Replace", True, (), SLOTS, Choice((), SLOTS[-1:], replaces=True)),
    "replace: who asked goes last": ("Replace", False, (A,), SLOTS, Choice((), SLOTS[-1:])),
    "replace: who asked": ("Replace", True, (A, B), (), Choice((A,), (), replaces=True)),
}


@cases(CHOICES)
def test_what_starts_under_each_policy(policy, busy, requests, slots, choice):
    assert starting.choose(policy, busy=busy, requests=requests, slots=slots) == choice


def test_one_plan_starts_a_bounded_number():
    requests = tuple(RunRequest(str(number), {}) for number in range(MAX_STARTS - 1))
    choice = starting.choose("Allow", busy=False, requests=requests, slots=SLOTS)
    assert (len(choice.requests), choice.slots) == (MAX_STARTS - 1, SLOTS[:1])
