"""All that is decided on gangs, in rounds of admission and one by one, word for word."""

from tests.unit.controllers.transcripts import PlanTranscript
from tests.unit.controllers.volcano.podgroup.gang_cluster import PATIENCE, GangCluster
from tests.unit.controllers.volcano.podgroup.gangs import queue


def test_gangs_of_a_few_queues(transcript: PlanTranscript) -> None:
    queues = [
        queue("small", capability={"cpu": "2"}),
        queue("sure", guarantee={"resource": {"cpu": "2"}}, priority=5),
        queue("closed", state="Closed"),
        queue(),
    ]
    cluster = GangCluster(queues, {"one": 4, "two": 4})
    cluster.decide, cluster.admit = transcript.of(cluster.decide), transcript.of(cluster.admit)

    def then(line: str, seconds: int = 2) -> None:
        transcript.note(line)
        for _ in range(seconds):
            cluster.step()

    cluster.arrive("first", least=2, late=True)
    cluster.arrive("wide", least=3, queue="small", late=True)
    cluster.arrive("tall", least=1, cpu=9, late=False)
    cluster.arrive("shut", least=1, queue="closed", late=False)
    cluster.arrive("lost", least=1, queue="nowhere", late=False)
    then("one fits, others never will")
    cluster.arrive("large", least=4, late=False)
    cluster.arrive("behind", least=4, late=True)
    cluster.arrive("urgent", least=2, queue="sure", late=True, more=1)
    cluster.arrive("bound", least=1, on="gone", late=False)
    then("three more wait for room", 3)
    for name in cluster.running():
        cluster.end(name)
    then("what ran ends", 3)
    cluster.lose("one")
    then("a node is lost", 2)
    cluster.now += PATIENCE
    then("a minute later", 3)
    assert transcript.text == transcript.expected("gangs")
