"""Unknown fields of templates in custom resources, whose schemas let templates through unread."""

from collections.abc import Iterator, Mapping

from deploy.local.apiserver.codec import builtin
from deploy.local.apiserver.codec.definitions import Type
from deploy.local.apiserver.codec.field_errors import DecodeError
from workers.api import pod_templates
from workers.api.kinds import (
    EVENT_JOB,
    JOB_FLOW,
    JOB_TEMPLATE,
    SCALED_JOB,
    SCHEDULED_JOB,
    VC_CRON_JOB,
    VC_JOB,
    Kind,
    Object,
)

_TASKS = ("tasks[].template", "V1PodTemplateSpec")
_CLAIMS = ("volumes[].volumeClaim", "V1PersistentVolumeClaimSpec")
#: By kind id: where an object has templates, and the built-in type of each; ``[]`` stands for every item of a list.
_TEMPLATES: Mapping[str, tuple[tuple[str, str], ...]] = {
    SCALED_JOB.id: (("spec.jobTargetRef", "V1JobSpec"),),
    SCHEDULED_JOB.id: (("spec.jobTemplate", "V1JobTemplateSpec"),),
    EVENT_JOB.id: (("spec.jobTemplate", "V1JobTemplateSpec"),),
    **{
        kind.id: tuple((f"{place}.{path}", model) for path, model in (_TASKS, _CLAIMS))
        for kind, place in (
            (VC_JOB, "spec"),
            (JOB_TEMPLATE, "spec"),
            (VC_CRON_JOB, "spec.jobTemplate.spec"),
            (JOB_FLOW, "spec.flows[].patch.jobSpec"),
        )
    },
}


def unknown(kind: Kind, body: Object) -> list[str]:
    """Returns the paths of the fields that no Job, pod or claim has.

    A value of the wrong type ends the search in its template: the rules of the kind are about values.
    """
    return list(_unknown(kind, body))


def _unknown(kind: Kind, body: Object) -> Iterator[str]:
    for path, model in _TEMPLATES.get(kind.id, ()):
        for place, template in pod_templates.at(path, body):
            found: list[str] = []
            try:
                if template is not None:
                    builtin.decoder(Type(model))(template, (None, place, ""), found)
            except DecodeError:
                pass
            yield from found
