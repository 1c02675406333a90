"""CustomResourceDefinitions, generated from the typed models.

``python -m workers.api.crds`` prints them; ``python -m workers.api.crds FOLDER`` writes one file per kind.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import yaml

from workers.api import kinds
from workers.api.keda import scaledjob, scaledobject, triggerauthentication
from workers.api.kinds import Kind, Object
from workers.api.model import Model
from workers.api.penstock_dev import eventjob, scalepolicy, scheduledjob
from workers.api.schemas import structural
from workers.api.volcano import command, jobflow, jobtemplate, podgroup, queue
from workers.api.volcano import cronjob as vccronjob
from workers.api.volcano import job as vcjob

#: The suffix of Volcano's groups. A cluster that runs Volcano itself keeps its own definitions of these kinds.
VOLCANO = ".volcano.sh"


@dataclass(frozen=True, slots=True)
class Column:
    """One column of `kubectl get`. path: the JSONPath of its value. wide: shown with `-o wide` only."""

    name: str
    path: str
    type: str = "string"
    wide: bool = False

    def render(self) -> Object:
        shown = {"name": self.name, "jsonPath": self.path, "type": self.type}
        return {**shown, "priority": 1} if self.wide else shown


def condition(name: str) -> Column:
    """Returns a column with the status of the condition of this name."""
    return Column(name, f'.status.conditions[?(@.type=="{name}")].status')


@dataclass(frozen=True, slots=True)
class KindDefinition:
    """The CustomResourceDefinition of a kind.

    spec, status: None for a kind without them; `fields` then models the fields beside its metadata. bare: an object
    may lack its spec.
    """

    kind: Kind
    spec: type[Model] | None
    status: type[Model] | None
    short_names: tuple[str, ...]
    columns: tuple[Column, ...]
    description: str
    fields: type[Model] | None = None
    bare: bool = False

    def render(self) -> Object:
        """Returns the CustomResourceDefinition as an object."""
        kind = self.kind
        return {
            **kinds.CUSTOM_RESOURCE_DEFINITION.type_meta,
            "metadata": {"name": kind.id},
            "spec": {
                "group": kind.group,
                "names": {
                    "kind": kind.kind,
                    "listKind": f"{kind.kind}List",
                    "plural": kind.plural,
                    "singular": kind.kind.lower(),
                    "shortNames": list(self.short_names),
                },
                "scope": "Namespaced" if kind.namespaced else "Cluster",
                "versions": [self._version()],
            },
        }

    def _version(self) -> Object:
        return {
            "name": self.kind.version,
            "served": True,
            "storage": True,
            **({"subresources": {"status": {}}} if self.kind.status else {}),
            "additionalPrinterColumns": [column.render() for column in self.columns],
            "schema": {
                "openAPIV3Schema": {
                    "type": "object",
                    "description": self.description,
                    **({"required": ["spec"]} if self.spec and not self.bare else {}),
                    "properties": {
                        "apiVersion": {"type": "string"},
                        "kind": {"type": "string"},
                        "metadata": {"type": "object"},
                        **(structural(self.fields)["properties"] if self.fields else {}),
                        **({"spec": structural(self.spec)} if self.spec else {}),
                        **({"status": structural(self.status)} if self.status else {}),
                    },
                }
            },
        }


_AUTHENTICATION_COLUMNS = (
    Column("PodIdentity", ".spec.podIdentity.provider"),
    Column("Secret", ".spec.secretTargetRef[*].name"),
    Column("Env", ".spec.env[*].name"),
    Column("VaultAddress", ".spec.hashiCorpVault.address"),
    Column("ScaledObjects", ".status.scaledobjects", wide=True),
    Column("ScaledJobs", ".status.scaledjobs", wide=True),
)

DEFINITIONS: tuple[KindDefinition, ...] = (
    KindDefinition(
        kinds.SCALED_JOB,
        scaledjob.ScaledJobSpec,
        scaledjob.ScaledJobStatus,
        ("sj",),
        (
            Column("Min", ".spec.minReplicaCount", "integer"),
            Column("Max", ".spec.maxReplicaCount", "integer"),
            condition("Ready"),
            condition("Active"),
            condition("Paused"),
            Column("Triggers", ".status.triggersTypes"),
            Column("Authentications", ".status.authenticationsTypes"),
            Column("Age", ".metadata.creationTimestamp", "date"),
        ),
        "Runs Jobs as long as its triggers find work.",
    ),
    KindDefinition(
        kinds.SCALED_OBJECT,
        scaledobject.ScaledObjectSpec,
        scaledobject.ScaledObjectStatus,
        ("so",),
        (
            Column("ScaleTargetKind", ".status.scaleTargetKind"),
            Column("ScaleTargetName", ".spec.scaleTargetRef.name"),
            Column("Min", ".spec.minReplicaCount", "integer"),
            Column("Max", ".spec.maxReplicaCount", "integer"),
            condition("Ready"),
            condition("Active"),
            condition("Fallback"),
            condition("Paused"),
            Column("Triggers", ".status.triggersTypes"),
            Column("Authentications", ".status.authenticationsTypes"),
            Column("Age", ".metadata.creationTimestamp", "date"),
        ),
        "Scales a workload by what its triggers find.",
    ),
    KindDefinition(
        kinds.SCHEDULED_JOB,
        scheduledjob.ScheduledJobSpec,
        scheduledjob.ScheduledJobStatus,
        ("schj",),
        (
            Column("Schedule", ".spec.schedule"),
            Column("Schedules", ".spec.schedules[*].schedule", wide=True),
            Column("Zone", ".spec.timeZone"),
            Column("Suspend", ".spec.suspend", "boolean"),
            Column("Active", ".status.active[*].name"),
            Column("Last", ".status.lastScheduleTime", "date"),
            # A date column shows an age, which a future instant lacks.
            Column("Next", ".status.nextScheduleTime"),
            Column("Missed", ".status.missedRuns", "integer", wide=True),
            condition("Ready"),
            Column("Age", ".metadata.creationTimestamp", "date"),
        ),
        "Runs Jobs at the times its schedules name.",
    ),
    KindDefinition(
        kinds.EVENT_JOB,
        eventjob.EventJobSpec,
        eventjob.EventJobStatus,
        ("ej",),
        (
            Column("Channel", ".status.channel"),
            condition("Suspended"),
            Column("Waiting", ".status.events.waiting", "integer"),
            Column("Active", ".status.active", "integer"),
            Column("Retrying", ".status.events.retrying", "integer", wide=True),
            Column("Parked", ".status.events.parked", "integer"),
            Column("Done", ".status.events.done", "integer", wide=True),
            Column("Last", ".status.lastEventTime", "date"),
            condition("Ready"),
            Column("Age", ".metadata.creationTimestamp", "date"),
        ),
        "Runs one Job for every event of a channel.",
    ),
    KindDefinition(
        kinds.SCALE_POLICY,
        scalepolicy.ScalePolicySpec,
        scalepolicy.ScalePolicyStatus,
        ("scp",),
        (
            Column("Max", ".spec.maxJobs", "integer"),
            Column("Group-By", ".spec.groupBy"),
            Column("Namespaces", ".spec.namespaces", wide=True),
            Column("Age", ".metadata.creationTimestamp", "date"),
        ),
        "Limits how many Jobs several ScaledJobs have together.",
    ),
    KindDefinition(
        kinds.TRIGGER_AUTHENTICATION,
        triggerauthentication.AuthenticationSpec,
        triggerauthentication.AuthenticationStatus,
        ("ta", "triggerauth"),
        _AUTHENTICATION_COLUMNS,
        "Supplies parameters, secret ones too, to triggers of its namespace.",
    ),
    KindDefinition(
        kinds.CLUSTER_TRIGGER_AUTHENTICATION,
        triggerauthentication.AuthenticationSpec,
        triggerauthentication.AuthenticationStatus,
        ("cta", "clustertriggerauth"),
        (*_AUTHENTICATION_COLUMNS, Column("FilePath", ".spec.filePath")),
        "Supplies parameters, secret ones too, to triggers of every namespace.",
    ),
    KindDefinition(
        kinds.VC_JOB,
        vcjob.JobSpec,
        vcjob.JobStatus,
        ("vcjob", "vj"),
        (
            Column("STATUS", ".status.state.phase"),
            Column("minAvailable", ".status.minAvailable", "integer"),
            Column("RUNNINGS", ".status.running", "integer"),
            Column("AGE", ".metadata.creationTimestamp", "date"),
            Column("QUEUE", ".spec.queue", wide=True),
        ),
        "Runs pods of several tasks as one gang.",
    ),
    KindDefinition(
        kinds.VC_CRON_JOB,
        vccronjob.VolcanoCronJobSpec,
        vccronjob.VolcanoCronJobStatus,
        ("cronvcjob", "cronvj"),
        (
            Column("Schedule", ".spec.schedule"),
            Column("Suspend", ".spec.suspend", "boolean"),
            Column("Active", ".status.active[*].name"),
            Column("Last", ".status.lastScheduleTime", "date"),
            Column("Age", ".metadata.creationTimestamp", "date"),
        ),
        "Runs Volcano's Jobs at the times its schedule names.",
    ),
    KindDefinition(
        kinds.QUEUE,
        queue.QueueSpec,
        queue.QueueStatus,
        ("q", "queue-v1beta1"),
        (
            Column("PARENT", ".spec.parent"),
            Column("STATE", ".status.state"),
            Column("WEIGHT", ".spec.weight", "integer"),
            Column("PENDING", ".status.pending", "integer"),
            Column("INQUEUE", ".status.inqueue", "integer"),
            Column("RUNNING", ".status.running", "integer"),
            Column("COMPLETED", ".status.completed", "integer", wide=True),
            Column("AGE", ".metadata.creationTimestamp", "date"),
        ),
        "A share of the cluster that gangs wait for.",
        bare=True,
    ),
    KindDefinition(
        kinds.POD_GROUP,
        podgroup.PodGroupSpec,
        podgroup.PodGroupStatus,
        ("pg", "podgroup-v1beta1"),
        (
            Column("STATUS", ".status.phase"),
            Column("minMember", ".spec.minMember", "integer"),
            Column("RUNNINGS", ".status.running", "integer"),
            Column("AGE", ".metadata.creationTimestamp", "date"),
            Column("QUEUE", ".spec.queue", wide=True),
        ),
        "Pods that start together or not at all.",
        bare=True,
    ),
    KindDefinition(
        kinds.COMMAND,
        None,
        None,
        (),
        (
            Column("ACTION", ".action"),
            Column("KIND", ".target.kind"),
            Column("TARGET", ".target.name"),
            Column("AGE", ".metadata.creationTimestamp", "date"),
        ),
        "Asks a Job or a Queue to do something, once.",
        fields=command.CommandFields,
    ),
    KindDefinition(
        kinds.JOB_FLOW,
        jobflow.JobFlowSpec,
        jobflow.JobFlowStatus,
        ("jf",),
        (Column("Status", ".status.state.phase"), Column("Age", ".metadata.creationTimestamp", "date")),
        "Runs Jobs in the order of what they depend on.",
    ),
    KindDefinition(
        kinds.JOB_TEMPLATE,
        jobtemplate.JobTemplateSpec,
        jobtemplate.JobTemplateStatus,
        ("jt",),
        (),
        "What flows make Jobs from.",
    ),
)


def all_crds(*, volcano: bool = True) -> list[Object]:
    """Returns one CustomResourceDefinition per kind. volcano: includes Volcano's kinds."""
    return [definition.render() for definition in DEFINITIONS if volcano or not definition.kind.group.endswith(VOLCANO)]


def files() -> dict[str, str]:
    """Returns YAML by file name (``keda.sh_scaledjobs.yaml``)."""
    return {
        f"{each.kind.group}_{each.kind.plural}.yaml": yaml.safe_dump(each.render(), sort_keys=False, width=120)
        for each in DEFINITIONS
    }


def render() -> str:
    """Returns all definitions as one YAML stream for `kubectl apply -f -`."""
    return "---\n".join(files().values())


def main(arguments: list[str]) -> None:
    if not arguments:
        sys.stdout.write(render())
        return
    for name, text in files().items():
        (Path(arguments[0]) / name).write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:])
