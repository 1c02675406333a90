"""Never more Jobs than maxReplicaCount: whatever the strategy, its settings, the queue, and what is there already."""

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.controllers.factories import NOW, child, gone, micros, reading, sample, scaled_job, snapshot
from tests.unit.controllers.plans import created
from workers.api.keda_compat import NONE
from workers.controllers.keda.scaledjob import decide, names

_STRATEGIES = st.one_of(
    st.sampled_from(["default", "accurate", "eager"]).map(lambda name: {"strategy": name}),
    st.fixed_dictionaries(
        {
            "strategy": st.just("custom"),
            "customScalingQueueLengthDeduction": st.integers(-50, 5),
            "customScalingRunningJobPercentage": st.sampled_from(["0", "0.5", "1", "-2", "1e9"]),
        }
    ),
)
_FALLBACKS = st.none() | st.fixed_dictionaries(
    {"behavior": st.just("fixed"), "replicas": st.integers(0, 20), "failureThreshold": st.just(0)}
)


@given(
    strategy=_STRATEGIES,
    minimum=st.integers(0, 8),
    maximum=st.integers(1, 8),
    queue=st.integers(0, 40),
    older=st.integers(0, 12),
    mine=st.integers(0, 6),
    ended=st.integers(0, 6),
    fallback=_FALLBACKS,
    failing=st.booleans(),
    quirks=st.sampled_from([NONE, frozenset({"poll-counting"})]),
)
def test_the_maximum_holds(strategy, minimum, maximum, queue, older, mine, ended, fallback, failing, quirks) -> None:
    spec = {"scalingStrategy": strategy, "minReplicaCount": minimum, "maxReplicaCount": maximum}
    body = scaled_job(**spec, **({"fallback": fallback} if fallback else {}))
    id, own = micros(-1), names.of("work", micros(-1))
    jobs = [child(f"older-{place}") for place in range(older)]
    jobs += [child(own.name(place)) for place in range(mine)]
    jobs += [gone(own.name(mine + place)) for place in range(ended)]
    samples = [sample(queue), *([sample(name="s1", error="away", failures=9)] if failing else [])]
    plan = decide(snapshot(body, *jobs, reading=reading(*samples, id=id)), NOW, quirks)
    assert older + mine + len(created(plan)) <= max(older + mine, maximum)
