"""The meaning of every reason in Events and conditions, and the action that each asks for; docs/reasons.md shows it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReasonMeaning:
    """One reason. about: an Event's type, or a condition with its status. action: empty if nothing is to be done."""

    reason: str
    about: str
    kinds: str
    meaning: str
    action: str = ""


_KEDA = "ScaledJob, ScaledObject"
_CRON = "CronJob, ScheduledJob"
_SCHEDULES = "CronJob, ScheduledJob, Volcano's CronJob"
_FORBIDDEN = (
    "read the error: a quota, an admission webhook or a missing right; Penstock repeats it with a growing delay"
)

_SCALING = (
    ReasonMeaning("KEDAScalersStarted", "Normal", _KEDA, "the triggers are measured for the first time"),
    ReasonMeaning("KEDAScalersStopped", "Normal", _KEDA, "the object was paused: its triggers are not measured"),
    ReasonMeaning(
        *("KEDAScalerFailed", "Warning", _KEDA, "a trigger could not be measured; the message names trigger and cause"),
        "make the measured server reachable, or mend address and authentication",
    ),
    ReasonMeaning("KEDAJobsCreated", "Normal", "ScaledJob", "Jobs were created; the message has their number"),
    ReasonMeaning("KEDAJobCreateFailed", "Warning", "ScaledJob", "the API server refused a Job", _FORBIDDEN),
    ReasonMeaning("ScaledJobReady", "Normal", "ScaledJob", "every trigger works"),
    ReasonMeaning("ScaledObjectReady", "Normal", "ScaledObject", "every trigger works and the target is found"),
    ReasonMeaning(
        *("ScaledJobCheckFailed", "Warning", "ScaledJob", "the manifest or an authentication that it names is wrong"),
        "mend the field that the message names",
    ),
    ReasonMeaning(
        *("ScaledObjectCheckFailed", "Warning", "ScaledObject"),
        "the manifest is wrong, or the target is missing, cannot be read or has another scaler",
        "mend the field that the message names",
    ),
    ReasonMeaning("ScaledJobActive", "Normal", "ScaledJob", "a trigger became active"),
    ReasonMeaning("ScaledJobInactive", "Normal", "ScaledJob", "no trigger is active any more"),
    ReasonMeaning(
        *("ScaledJobFallbackActivated", "Warning", "ScaledJob"),
        "a trigger failed too often: `spec.fallback` keeps Jobs alive for it",
        "make the trigger work; the Event `KEDAScalerFailed` has the cause",
    ),
    ReasonMeaning("ScaledJobFallbackDeactivated", "Normal", "ScaledJob", "every trigger is measured again"),
    ReasonMeaning(
        *("ScaledObjectFallbackActivated", "Warning", "ScaledObject"),
        "a trigger failed too often: `spec.fallback` supplies its value",
        "make the trigger work; the condition `Ready` has the cause",
    ),
    ReasonMeaning("ScaledObjectFallbackDeactivated", "Normal", "ScaledObject", "every trigger is measured again"),
    ReasonMeaning(
        "ScaledJobPaused", "Normal", "ScaledJob", "an annotation pauses it", "remove the annotation to go on"
    ),
    ReasonMeaning("ScaledJobUnpaused", "Normal", "ScaledJob", "scaling goes on"),
    ReasonMeaning(
        "ScaledObjectPaused", "Normal", "ScaledObject", "an annotation pauses it", "remove the annotation to go on"
    ),
    ReasonMeaning("ScaledObjectUnpaused", "Normal", "ScaledObject", "scaling goes on"),
    ReasonMeaning(
        *(
            "ScaledJobDeleted",
            "Warning",
            "ScaledJob",
            "it was deleted, and its finalizer taken off; its Jobs go with it",
        ),
    ),
    ReasonMeaning("ScaledObjectDeleted", "Warning", "ScaledObject", "it was deleted, and its finalizer taken off"),
    ReasonMeaning(
        "ScaledJobRolloutCleanupStarted", "Normal", "ScaledJob", "the spec changed: Jobs of the old one are deleted"
    ),
    ReasonMeaning("ScaledJobRolloutCleanupCompleted", "Normal", "ScaledJob", "those Jobs were deleted"),
    ReasonMeaning("ScaledJobRolloutCleanupFailed", "Warning", "ScaledJob", "a Job could not be deleted", _FORBIDDEN),
    ReasonMeaning(
        *("SourceLeftAlone", "Warning", "ScaledJob"),
        "a measured server failed three times in a row and is asked less often",
        "look at that server; `status.sourcesLeftAlone` has the next attempt",
    ),
    ReasonMeaning("SourceAnswersAgain", "Normal", "ScaledJob", "that server answers again"),
    ReasonMeaning(
        "KEDAScaleTargetActivated",
        "Normal",
        "ScaledObject",
        "a trigger is active: the target was scaled up from zero or `idleReplicaCount`",
    ),
    ReasonMeaning("KEDAScaleTargetActivationFailed", "Warning", "ScaledObject", "that was refused", _FORBIDDEN),
    ReasonMeaning(
        "KEDAScaleTargetDeactivated",
        "Normal",
        "ScaledObject",
        "no trigger is active: the target was scaled to `idleReplicaCount` or zero",
    ),
    ReasonMeaning("KEDAScaleTargetDeactivationFailed", "Warning", "ScaledObject", "that was refused", _FORBIDDEN),
    ReasonMeaning("SuccessfulRescale", "Normal", "ScaledObject", "the target has a new size; the message says why"),
    ReasonMeaning("FailedRescale", "Warning", "ScaledObject", "a new size was refused", _FORBIDDEN),
    ReasonMeaning(
        "AutoscalerReplaced", "Normal", "ScaledObject", "the HorizontalPodAutoscaler it replaces was deleted"
    ),
    ReasonMeaning(
        *("AutoscalerStays", "Warning", "ScaledObject", "that HorizontalPodAutoscaler could not be deleted"),
        "delete it, or allow `penstock-worker` to; until then nothing is scaled",
    ),
    *(
        ReasonMeaning(reason, type_, kind, meaning, action)
        for kind in ("TriggerAuthentication", "ClusterTriggerAuthentication")
        for reason, type_, meaning, action in (
            (f"{kind}Added", "Normal", "it was found for the first time", ""),
            (f"{kind}Deleted", "Normal", "it was deleted", ""),
            (f"{kind}Deleted", "Warning", "it was deleted while objects use it", "create it again, or edit its users"),
        )
    ),
)

_EVENT_JOBS = (
    ReasonMeaning("EventJobReady", "Normal", "EventJob", "it takes the events of its channel"),
    ReasonMeaning("EventJobSuspended", "Normal", "EventJob", "events are taken in, and no Job is created"),
    ReasonMeaning("EventJobResumed", "Normal", "EventJob", "Jobs are created again"),
    ReasonMeaning("JobsCreated", "Normal", "EventJob", "Jobs were created; the message has their number"),
    ReasonMeaning("JobCreateFailed", "Warning", "EventJob", "the API server refused a Job", _FORBIDDEN),
    ReasonMeaning(
        *("EventParked", "Warning", "EventJob", "the last attempt of an event failed, or it cannot become a Job"),
        "`penstock events list NAME --state parked`, mend the cause, then replay it",
    ),
    ReasonMeaning(
        *("ChannelTaken", "Warning", "EventJob", "another object's intake has its channel"),
        "give it another `spec.channel` or name, or delete the other object",
    ),
    ReasonMeaning(
        *("ChannelUnreadable", "Warning", "EventJob", "its channel cannot be read from the broker"),
        "`penstock doctor`: the broker's state, its memory, the rights of its user",
    ),
    ReasonMeaning(
        *("DeletionWaits", "Warning", "EventJob", "its events cannot be removed from the broker, so it stays"),
        "make the broker reachable; the deletion goes on by itself",
    ),
)

_ALL = (
    ReasonMeaning(
        *("Unreadable", "Warning", "all", "the object cannot be decided on; the message names the field"),
        "mend the field: a definition that is newer would have refused it",
    ),
)

_BATCH = (
    ReasonMeaning("Completed", "Normal", "Job", "it succeeded"),
    ReasonMeaning("Suspended", "Normal", "Job", "`spec.suspend` ended its pods"),
    ReasonMeaning(
        "Resumed", "Normal", "Job, Volcano's Job", "`spec.suspend` is no longer true: pods are created again"
    ),
    ReasonMeaning("BackoffLimitExceeded", "Warning", "Job", "more pods failed than `backoffLimit`", "read its logs"),
    ReasonMeaning(
        *("DeadlineExceeded", "Warning", "Job", "it was active longer than `activeDeadlineSeconds`"),
        "raise the deadline, or find out what takes so long",
    ),
    ReasonMeaning(
        *("MaxFailedIndexesExceeded", "Warning", "Job", "more indexes failed than `maxFailedIndexes`"),
        "read the logs of its failed indexes, `status.failedIndexes`",
    ),
    ReasonMeaning(
        *("FailedIndexes", "Warning", "Job", "all indexes are over, and some failed"),
        "read the logs of its failed indexes, `status.failedIndexes`",
    ),
    ReasonMeaning(
        *("PodFailurePolicy", "Warning", "Job", "a rule of `podFailurePolicy` with the action FailJob matched"),
        "the message names pod and rule",
    ),
    ReasonMeaning("TooManySucceededPods", "Warning", "Job", "more pods succeeded than `completions`"),
    ReasonMeaning(
        *("UnknownCompletionMode", "Warning", "Job", "its `completionMode` is unknown: nothing is done"),
        "a newer Penstock may know it; else recreate the Job with another mode",
    ),
    ReasonMeaning(
        *("SuccessfulCreate", "Normal", "Job, ReplicaSet, StatefulSet, CronJobs, ScheduledJob, JobFlow"),
        "a pod, Job or flow was created",
    ),
    ReasonMeaning(
        "SuccessfulDelete", "Normal", "Job, ReplicaSet, StatefulSet, CronJobs, ScheduledJob", "a pod or Job was deleted"
    ),
    ReasonMeaning(
        *("FailedCreate", "Warning", "Job, ReplicaSet, StatefulSet, CronJobs, ScheduledJob, Volcano's Job, JobFlow"),
        "a pod, volume claim, Job or flow was refused, or its name belongs to another object",
        "read the error: a quota, an admission webhook, a missing right; delete or rename an object in the way",
    ),
    ReasonMeaning(
        *("FailedDelete", "Warning", "Job, ReplicaSet, StatefulSet, CronJobs, ScheduledJob, Volcano's Job"),
        "a pod or Job could not be deleted",
        _FORBIDDEN,
    ),
    ReasonMeaning("ScalingReplicaSet", "Normal", "Deployment", "a ReplicaSet was given another size"),
)

_SCHEDULED = (
    ReasonMeaning("SawCompletedJob", "Normal", _SCHEDULES, "the Job of a run ended; the message says how"),
    ReasonMeaning(
        *("MissSchedule", "Warning", _SCHEDULES, "runs did not start and will not"),
        "look for the outage; `startingDeadlineSeconds` and a ScheduledJob's `catchUp` say what is made up for",
    ),
    ReasonMeaning(
        *("TooManyMissedTimes", "Warning", _SCHEDULES, "more than 100 runs were due since the last one"),
        "set `startingDeadlineSeconds`, or check the clock",
    ),
    ReasonMeaning(
        *("ScheduleTimeInFuture", "Warning", _SCHEDULES, "the last handled time is later than now"),
        "check the clocks: nothing is due until then, unless the message says that it was set back",
    ),
    ReasonMeaning(
        *("UnsupportedSchedule", "Warning", _SCHEDULES),
        "the schedule has TZ= in its text, or several slots in a minute, whose Jobs have one name",
        "use `timeZone`; use a ScheduledJob for several runs a minute",
    ),
    ReasonMeaning("UnknownTimeZone", "Warning", _CRON, "`timeZone` is not known", "use a name of the IANA database"),
    ReasonMeaning(
        "InvalidTimeZone", "Warning", "Volcano's CronJob", "`timeZone` is not known", "use a name of the IANA database"
    ),
    ReasonMeaning("UnparseableSchedule", "Warning", _CRON, "the schedule cannot be read", "mend `schedule`"),
    ReasonMeaning(
        "UnParseableCronJobSchedule", "Warning", _SCHEDULES, "the schedule cannot be read", "mend `schedule`"
    ),
    ReasonMeaning(
        *("InvalidSchedule", "Warning", _SCHEDULES, "the schedule names no instant, or exclusions cover all of them"),
        "mend `schedule` or `exclusions`",
    ),
    ReasonMeaning(
        *("InvalidSpec", "Warning", "CronJobs, ScheduledJob, EventJob, JobFlow", "the manifest is wrong"),
        "mend the field that the message names; what runs goes on",
    ),
    ReasonMeaning(
        *("InvalidRunRequest", "Warning", _CRON, "an annotation that asks for a run is wrong"),
        "ask by `penstock run`, which writes a valid one",
    ),
    ReasonMeaning("JobAlreadyActive", "Normal", _CRON, "a run waits for the one before (`concurrencyPolicy: Forbid`)"),
    ReasonMeaning("ForbidConcurrent", "Warning", "Volcano's CronJob", "the same, under Volcano's name"),
    ReasonMeaning("ReplaceConcurrent", "Warning", "Volcano's CronJob", "a run replaces the one before (`Replace`)"),
    ReasonMeaning("MissingJob", "Normal", _CRON, "a Job that was active is gone"),
    ReasonMeaning("StaleReference", "Warning", "Volcano's CronJob", "a Job that was active is gone"),
    ReasonMeaning("UnexpectedJob", "Warning", _CRON, "a Job that it owns was made by somebody else"),
    ReasonMeaning("OrphanedJob", "Warning", "Volcano's CronJob", "a Job that it owns was made by somebody else"),
)

_VOLCANO = (
    ReasonMeaning("CommandIssued", "Normal", "Volcano's Job, Queue", "a Command took effect"),
    ReasonMeaning("CommandIgnored", "Normal", "Volcano's Job", "a Command has no effect in this phase"),
    ReasonMeaning(
        *("CommandIgnored", "Warning", "Volcano's Job, Queue"),
        "a Command is for an earlier object of this name, is unknown, or the spec suspends the Job",
        "edit `spec.suspend`, or send a known action",
    ),
    ReasonMeaning(
        *("CommandDropped", "Warning", "Command", "its target does not exist, or its kind takes no Commands"),
        "name a Volcano Job or a Queue that exists",
    ),
    ReasonMeaning("ExecuteAction", "Normal", "Volcano's Job", "a policy's or Command's action begins"),
    ReasonMeaning("PodFailed", "Warning", "Volcano's Job", "a pod failed; the message has container and exit code"),
    ReasonMeaning(
        "Invalid", "Warning", "Volcano's Job", "the manifest is wrong: no pod is created", "mend the manifest"
    ),
    ReasonMeaning(
        *("ChangeIgnored", "Warning", "Volcano's Job", "the spec of a finished Job was edited"),
        "create a new Job: a finished one never runs again",
    ),
    ReasonMeaning(
        *("PolicyIgnored", "Warning", "Volcano's Job", "a policy can have no effect, or had none when it matched"),
        "mend or remove the policy that the message names",
    ),
    ReasonMeaning(
        *("MinSuccessTooHigh", "Warning", "Volcano's Job", "`minSuccess` is more than there are pods"),
        "lower `minSuccess`",
    ),
    ReasonMeaning(
        *("NotEnforced", "Warning", "Volcano's Job", "fields are for Volcano's scheduler alone and have no effect"),
        "remove them, or see `PENSTOCK_GANG_TOPOLOGY`",
    ),
    ReasonMeaning(
        *("PluginError", "Warning", "Volcano's Job", "what a plugin needs could not be made or removed"),
        "read the error; for `ssh` the worker needs rights on Secrets",
    ),
    ReasonMeaning(
        *("PVCError", "Warning", "Volcano's Job", "a volume claim could not be made, or does not exist"),
        "create the claim that the message names, or raise the quota",
    ),
    ReasonMeaning(
        *("PodGroupError", "Warning", "Volcano's Job"),
        "its PodGroup could not be made or deleted, or its queue does not exist",
        "create the queue, or read the error",
    ),
    ReasonMeaning(
        *("PodGroupPending", "Warning", "Volcano's Job", "its gang is not admitted; the message says why"),
        "`penstock job view -N NAME` shows its place in the queue",
    ),
    ReasonMeaning(
        *("DependencyFailed", "Warning", "Volcano's Job", "a task waits for one that can no longer be ready"),
        "mend the task that it `dependsOn`",
    ),
    ReasonMeaning("Unschedulable", "Normal", "PodGroup", "the gang waits; the message begins with the reason"),
    ReasonMeaning(
        *("Unschedulable", "Warning", "PodGroup", "the gang waits, and waiting alone will not help"),
        "see the reason below, under the condition `Unschedulable`",
    ),
    ReasonMeaning(
        *("BackOff", "Warning", "PodGroup", "an admitted gang was not placed in time and gives its room back"),
        "free nodes; it tries again by itself",
    ),
    ReasonMeaning("Reclaimed", "Warning", "PodGroup", "its room goes to a gang of a queue below its share"),
    ReasonMeaning("FailedPodGroup", "Warning", "Pod", "the pod has no PodGroup: creating one failed", _FORBIDDEN),
    ReasonMeaning("OpenQueue", "Normal", "Queue", "it takes work again"),
    ReasonMeaning("OpenQueue", "Warning", "Queue", "it stays closed, for the queue above is", "open that one first"),
    ReasonMeaning("CloseQueue", "Normal", "Queue", "it takes no new work"),
    ReasonMeaning("CloseQueue", "Warning", "Queue", "the root queue is never closed"),
    ReasonMeaning(
        *("ParentNotFound", "Warning", "Queue", "the queue that `parent` names does not exist: it stands alone"),
        "create it, or mend `spec.parent`",
    ),
    ReasonMeaning("Created", "Normal", "JobFlow", "the Job of an entry was created"),
    ReasonMeaning(
        *("NameTaken", "Warning", "JobFlow", "a Job of an entry's name exists and belongs to somebody else"),
        "delete or rename that Job",
    ),
    ReasonMeaning(
        "MissingTemplate", "Warning", "JobFlow", "an entry names a JobTemplate that is missing", "create the template"
    ),
    ReasonMeaning(
        "ReconcileFailing", "Warning", "JobFlow", "the last attempts failed", "read the error in the message"
    ),
    ReasonMeaning("WaitsForProbe", "Normal", "JobFlow", "an entry waits for a probe of what it depends on"),
    ReasonMeaning("EntryGone", "Normal", "JobFlow", "a Job runs whose entry was removed from the spec"),
    ReasonMeaning("FlowSucceed", "Normal", "JobFlow", "all entries are over, and none failed"),
    ReasonMeaning(
        *("FlowFailed", "Warning", "JobFlow", "an entry failed; the message names it"),
        "mend it, then `penstock flow retry -N NAME`",
    ),
    ReasonMeaning("FlowTerminated", "Warning", "JobFlow", "the flow was cancelled, and its Jobs have ended"),
)

EVENTS = (*_SCALING, *_EVENT_JOBS, *_BATCH, *_SCHEDULED, *_VOLCANO, *_ALL)

_WAITS = "Unschedulable=True"

CONDITIONS = (
    ReasonMeaning("ScaledJobReady", "Ready=True", "ScaledJob", "every trigger works, or it is paused"),
    ReasonMeaning("ScaledObjectReady", "Ready=True", "ScaledObject", "every trigger works, or it is paused"),
    ReasonMeaning(
        *("ScaledJobCheckFailed", "Ready=False", "ScaledJob"),
        "the manifest or an authentication is wrong, or claimed items cannot be returned",
        "mend the field that the message names",
    ),
    ReasonMeaning(
        *("ScaledObjectCheckFailed", "Ready=False", "ScaledObject"),
        "the manifest is wrong, the target is missing, or another scaler has it",
        "mend the field that the message names; remove the other scaler",
    ),
    ReasonMeaning(
        *("ErrorGettingCurrentReplicas", "Ready=False", "ScaledObject", "the target cannot be read"),
        "give `penstock-worker` the right on the `scale` subresource, or wait for the API server",
    ),
    ReasonMeaning(
        *("TriggerError", "Ready=False", _KEDA, "no trigger works"),
        "read the message: server, authentication or parameter",
    ),
    ReasonMeaning(
        *("PartialTriggerError", "Ready=Unknown", _KEDA, "some triggers do not work, others do"),
        "read the message: server, authentication or parameter",
    ),
    ReasonMeaning("ScalerActive", "Active=True", _KEDA, "a trigger is active"),
    ReasonMeaning("ScalerNotActive", "Active=False", _KEDA, "no trigger is active"),
    ReasonMeaning("ScalerCooldown", "Active=False", "ScaledObject", "no trigger is active; `cooldownPeriod` runs"),
    ReasonMeaning(
        "UnknownState", "Active=Unknown", _KEDA, "the triggers are not measured, because the object is not ready"
    ),
    ReasonMeaning("FallbackExists", "Fallback=True", _KEDA, "a fallback stands in", "make the trigger work"),
    ReasonMeaning("NoFallbackFound", "Fallback=False", _KEDA, "no fallback stands in"),
    ReasonMeaning("ScaledJobPaused", "Paused=True", "ScaledJob", "an annotation pauses it", "remove the annotation"),
    ReasonMeaning(
        "ScaledObjectPaused", "Paused=True", "ScaledObject", "an annotation pauses it", "remove the annotation"
    ),
    ReasonMeaning("ScaledJobUnpaused", "Paused=False", "ScaledJob", "it was paused and is not any more"),
    ReasonMeaning("ScaledObjectUnpaused", "Paused=False", "ScaledObject", "it was paused and is not any more"),
    ReasonMeaning(
        *("ScalePolicy", "Capped=True", "ScaledJob", "a ScalePolicy allows fewer Jobs than are wanted"),
        "raise the limit, or wait for Jobs to end",
    ),
    ReasonMeaning("WithinLimits", "Capped=False", "ScaledJob", "its ScalePolicies hold nothing back"),
    ReasonMeaning("EventJobReady", "Ready=True", "EventJob", "it takes the events of its channel"),
    ReasonMeaning("NotRead", "Ready=Unknown", "EventJob", "its channel was not read yet", "check that a scaler runs"),
    ReasonMeaning(
        *("InvalidSpec", "Ready=False", "CronJobs, ScheduledJob, EventJob, JobFlow, PodGroup", "the manifest is wrong"),
        "mend the field that the message names",
    ),
    ReasonMeaning("InvalidSpec", "Suspended=Unknown", "EventJob", "the manifest is wrong", "see `Ready`"),
    ReasonMeaning(
        *("ChannelTaken", "Ready=False", "EventJob", "another object's intake has its channel"),
        "give it another channel, or delete the other object",
    ),
    ReasonMeaning(
        "ChannelUnreadable", "Ready=False", "EventJob", "its channel cannot be read", "`penstock doctor` for the broker"
    ),
    ReasonMeaning("JobCreateFailed", "Ready=False", "EventJob", "the API server refused a Job", _FORBIDDEN),
    ReasonMeaning(
        *("DeletionWaits", "Ready=False", "EventJob", "its events cannot be removed from the broker"),
        "make the broker reachable",
    ),
    ReasonMeaning("Deleted", "Suspended=Unknown", "EventJob", "it is being deleted"),
    ReasonMeaning("NotSuspended", "Suspended=False", "EventJob", "Jobs are created"),
    ReasonMeaning(
        *("SuspendedByUser", "Suspended=True", "EventJob", "`spec.suspend`: no Job is created"),
        "`penstock resume eventjob/NAME`",
    ),
    ReasonMeaning(
        *("DeadLetterFull", "Parked=True", "EventJob", "`deadLetter.limit` events are parked: nothing runs"),
        "replay or drop some",
    ),
    ReasonMeaning(
        *("EventsParked", "Parked=True", "EventJob", "events are parked"),
        "`penstock events list NAME --state parked`",
    ),
    ReasonMeaning("NothingParked", "Parked=False", "EventJob", "no event is parked"),
    ReasonMeaning("Scheduled", "Ready=True", "ScheduledJob, JobFlow", "runs start when they are due"),
    ReasonMeaning("Suspended", "Ready=False", "ScheduledJob, JobFlow", "`spec.suspend`: nothing starts by itself"),
    ReasonMeaning(
        *("UnknownTimeZone", "Ready=False", "ScheduledJob", "`timeZone` is not known"),
        "use a name of the IANA database",
    ),
    ReasonMeaning("UnparseableSchedule", "Ready=False", "ScheduledJob", "the schedule cannot be read", "mend it"),
    ReasonMeaning(
        *("NeverFires", "Ready=False", "ScheduledJob", "the schedule names no instant that is not excluded"),
        "mend `schedule` or `exclusions`",
    ),
    ReasonMeaning(
        *("ReconcileFailing", "Ready=False", "ScheduledJob, JobFlow", "the last attempt failed"),
        "read the error in the message; Penstock repeats it",
    ),
    ReasonMeaning("AsSpecified", "Ready=True", "JobFlow", "entries start when what they depend on has happened"),
    ReasonMeaning("Finished", "Ready=True", "JobFlow", "the flow is over"),
    ReasonMeaning("WaitsForProbe", "Ready=True", "JobFlow", "an entry waits for a probe"),
    ReasonMeaning("EntryGone", "Ready=True", "JobFlow", "a Job runs whose entry was removed from the spec"),
    ReasonMeaning("MissingTemplate", "Ready=False", "JobFlow", "a JobTemplate is missing", "create it"),
    ReasonMeaning(
        *("NameTaken", "Ready=False", "JobFlow", "an entry's Job name belongs to somebody else"),
        "delete or rename that Job",
    ),
    ReasonMeaning("JobSuspended", "Suspended=True", "Job", "`spec.suspend` is true"),
    ReasonMeaning("JobResumed", "Suspended=False", "Job", "`spec.suspend` is no longer true"),
    *(
        ReasonMeaning(reason, "FailureTarget, Failed=True", "Job", meaning, "see the Event of this reason")
        for reason, meaning in (
            ("BackoffLimitExceeded", "more pods failed than `backoffLimit`"),
            ("DeadlineExceeded", "it was active longer than `activeDeadlineSeconds`"),
            ("MaxFailedIndexesExceeded", "more indexes failed than `maxFailedIndexes`"),
            ("FailedIndexes", "all indexes are over, and some failed"),
            ("PodFailurePolicy", "a rule of `podFailurePolicy` matched"),
        )
    ),
    ReasonMeaning("CompletionsReached", "SuccessCriteriaMet, Complete=True", "Job", "as many pods succeeded as asked"),
    ReasonMeaning("SuccessPolicy", "SuccessCriteriaMet, Complete=True", "Job", "a rule of `successPolicy` matched"),
    ReasonMeaning("MinimumReplicasAvailable", "Available=True", "Deployment", "enough pods are available"),
    ReasonMeaning(
        "MinimumReplicasUnavailable", "Available=False", "Deployment", "too few pods are available", "look at its pods"
    ),
    ReasonMeaning("NewReplicaSetCreated", "Progressing=True", "Deployment", "a rollout began"),
    ReasonMeaning("FoundNewReplicaSet", "Progressing=True", "Deployment", "a rollout goes on with a set that existed"),
    ReasonMeaning("ReplicaSetUpdated", "Progressing=True", "Deployment", "the rollout makes progress"),
    ReasonMeaning("NewReplicaSetAvailable", "Progressing=True", "Deployment", "the rollout is complete"),
    ReasonMeaning("DeploymentPaused", "Progressing=Unknown", "Deployment", "`spec.paused` is true"),
    ReasonMeaning("DeploymentResumed", "Progressing=Unknown", "Deployment", "`spec.paused` is no longer true"),
    ReasonMeaning(
        *("ProgressDeadlineExceeded", "Progressing=False", "Deployment"),
        "no progress within `progressDeadlineSeconds`",
        "look at the pods of the new ReplicaSet",
    ),
    ReasonMeaning(
        "FailedCreate", "ReplicaFailure=True", "ReplicaSet, Deployment", "a pod could not be created", _FORBIDDEN
    ),
    ReasonMeaning(
        "FailedDelete", "ReplicaFailure=True", "ReplicaSet, Deployment", "a pod could not be deleted", _FORBIDDEN
    ),
    ReasonMeaning(
        "tasks in gang are ready to be scheduled",
        "Scheduled=True, Unschedulable=False",
        "PodGroup",
        "the gang is whole",
    ),
    ReasonMeaning("Admitted", "Unschedulable=False", "PodGroup", "the whole gang may start"),
    ReasonMeaning("NotEnforced", "Enforced=False", "PodGroup", "fields for Volcano's scheduler have no effect"),
    ReasonMeaning(
        "WaitingLimitExceeded", _WAITS, "PodGroup", "it did not start within the time that its annotation allows"
    ),
    ReasonMeaning("BackingOff", _WAITS, "PodGroup", "it was let through and not placed, or its room was reclaimed"),
    ReasonMeaning("Reclaimed", _WAITS, "PodGroup", "its room goes to a gang of a queue below its share"),
    ReasonMeaning(
        "Behind", _WAITS, "PodGroup", "its queue is served in order, and the gang that the message names is first"
    ),
    ReasonMeaning("QueueNotFound", _WAITS, "PodGroup", "its queue does not exist", "create the queue"),
    ReasonMeaning("QueueNotLeaf", _WAITS, "PodGroup", "its queue has queues below it", "name one of those"),
    ReasonMeaning(
        "QueueNotOpen", _WAITS, "PodGroup", "its queue, or one above, is closed", "`penstock queue operate -a open`"
    ),
    ReasonMeaning("NotEnoughTasks", _WAITS, "PodGroup", "fewer pods exist than the gang needs"),
    ReasonMeaning("TooManyRunning", _WAITS, "PodGroup", "`maxRunningJobs` of its queue is reached"),
    ReasonMeaning(
        "QuotaExceeded", _WAITS, "PodGroup", "a ResourceQuota of its namespace is used up", "raise the quota"
    ),
    ReasonMeaning("NotEnoughResources", _WAITS, "PodGroup", "queue, cluster or nodes have too little room now"),
    ReasonMeaning(
        *("NeverFits", _WAITS, "PodGroup", "it can never start as things are; the message names the resource"),
        "ask for less, raise the queue's capability, or add nodes",
    ),
)
