"""Warnings about created objects: each text is recorded about their owner, once an hour."""

from workers.api.kinds import JOB, POD
from workers.reconcile.creation_warnings import MOST, RECORDED, CreationWarnings

UNKNOWN = 'unknown field "spec.backofLimit"'


def owner(uid="uid-1"):
    return {"metadata": {"name": "work", "uid": uid}}


def test_a_text_is_one_event_however_many_objects_it_is_about():
    (event,) = CreationWarnings().events(owner(), [(JOB, UNKNOWN)] * 3, 0.0)
    assert (event.type, event.reason, event.message) == ("Warning", "CreatedWithWarning", f"Job: {UNKNOWN}")


def test_a_text_is_recorded_again_after_an_hour_and_for_another_kind_or_owner():
    warnings = CreationWarnings()

    def recorded(*told, uid="uid-1", now):
        return [event.message for event in warnings.events(owner(uid), told, now)]

    assert recorded((JOB, UNKNOWN), now=0.0)
    assert not recorded((JOB, UNKNOWN), now=RECORDED - 1)
    assert recorded((POD, UNKNOWN), now=1.0) == [f"Pod: {UNKNOWN}"]
    assert recorded((JOB, UNKNOWN), uid="uid-2", now=1.0)
    assert recorded((JOB, UNKNOWN), now=RECORDED)


def test_texts_that_differ_for_every_object_are_bounded():
    assert len(list(CreationWarnings().events(owner(), ((JOB, str(each)) for each in range(99)), 0.0))) == MOST
