"""Advice for kinds that a cluster does not serve."""

from deploy import unserved_kinds
from tests.support.tables import cases

SERVED = [("batch", "v1", "CronJob"), ("networking.k8s.io", "v1", "Ingress"), ("", "v1", "Event")]
SERVED += [("batch.volcano.sh", "v1alpha1", "Job")]


@cases(
    ("another version", "batch", "CronJob", "use batch/v1"),
    ("a former group", "extensions", "Ingress", "use networking.k8s.io/v1"),
    ("the core", "", "Event", "use v1"),
    ("a kind that is gone", "policy", "PodSecurityPolicy", "it is not offered here"),
    ("a name in another group", "batch", "Job", "it is not offered here"),
    ("a core kind in somebody's group", "example.com", "Event", "missing: apply that first"),
    ("one of ours", "keda.sh", "ScaledJob", "stores ours"),
    ("one of Volcano's", "scheduling.volcano.sh", "Queue", "stores ours"),
    ("one that ends like ours", "xkeda.sh", "ScaledJob", "missing: apply that first"),
)
def test_advice_fits_the_group_and_what_is_served(group: str, name: str, said: str) -> None:
    assert unserved_kinds.advice(group, name, SERVED).endswith(said)
