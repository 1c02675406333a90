"""The volumes of a job: claims to create, claims that must exist, and their mounts in the pods."""

from collections.abc import Mapping
from dataclasses import dataclass

from workers.api.kinds import PERSISTENT_VOLUME_CLAIM, Object, Ref
from workers.api.volcano.job import Job, Volume
from workers.controllers.pod_names import letters
from workers.controllers.volcano.job import names
from workers.controllers.volcano.job.plugins import containers
from workers.decision.plan import Create

#: Longest stem of a volume's name, which is a DNS label.
_STEM = 50


@dataclass(frozen=True, slots=True)
class JobVolumeClaims:
    """The claims of a job's volumes.

    making: creations of the job's own claims. missing: names of claims that another owner must create. resources: the
    entries of `status.controlledResources`.
    """

    making: tuple[Create, ...]
    missing: tuple[str, ...]
    resources: dict[str, str]

    @property
    def problem(self) -> str | None:
        """The reason why no pods can be created yet."""
        return f"pvc {', '.join(self.missing)} not found" if self.missing else None


def wanted(job: Job) -> tuple[Ref, ...]:
    """Returns the claims that the job's pods mount, each once."""
    refs = (Ref(PERSISTENT_VOLUME_CLAIM, job.metadata.namespace, name) for name in _names(job))
    return tuple(dict.fromkeys(refs))


def own(job: Job) -> tuple[Ref, ...]:
    """Returns the claims that are created for the job, under names derived from its uid."""
    named = zip(_names(job), job.spec.volumes or (), strict=True)
    return tuple(
        Ref(PERSISTENT_VOLUME_CLAIM, job.metadata.namespace, name)
        for name, volume in named
        if volume.volume_claim is not None and not volume.volume_claim_name
    )


def claims(job: Job, found: Mapping[Ref, Object | None]) -> JobVolumeClaims:
    """Returns the state of the job's claims. found: the observed claims among those that the job mounts.

    The name of the job's own claim contains its uid: a repeated creation finds the claim, and no name has to be stored.
    """
    making: dict[str, Create] = {}
    missing: dict[str, None] = {}
    for name, volume in zip(_names(job), job.spec.volumes or (), strict=True):
        if found.get(Ref(PERSISTENT_VOLUME_CLAIM, job.metadata.namespace, name)) is not None:
            continue
        if volume.volume_claim is None:
            missing[name] = None
        else:
            making.setdefault(name, Create(PERSISTENT_VOLUME_CLAIM, _claim(job, name, volume.volume_claim)))
    return JobVolumeClaims(
        tuple(making.values()), tuple(missing), {f"volume-pvc-{ref.name}": ref.name for ref in wanted(job)}
    )


def mounted(job: Job, pod: Object) -> Object:
    """Returns the pod with the job's volumes mounted in all containers but init containers.

    Of several mounts of one claim only the first counts.
    """
    paths: dict[str, str] = {}
    for name, volume in zip(_names(job), job.spec.volumes or (), strict=True):
        paths.setdefault(name, volume.mount_path)
    stem = job.metadata.name[:_STEM].replace(".", "-").rstrip("-")
    for claim, path in paths.items():
        name = f"{stem}-{_letters(job, claim)}"
        source = {"name": name, "persistentVolumeClaim": {"claimName": claim}}
        pod = containers.with_volume(pod, source, {"name": name, "mountPath": path}, init=False)
    return pod


def _names(job: Job) -> tuple[str, ...]:
    """Returns the claim of each entry of `spec.volumes`."""
    return tuple(_name(job, index, volume) for index, volume in enumerate(job.spec.volumes or ()))


def _name(job: Job, index: int, volume: Volume) -> str:
    return volume.volume_claim_name or f"{job.metadata.name}-pvc-{_letters(job, f'volumes/{index}')}"


def _letters(job: Job, what: str) -> str:
    return letters(f"{job.metadata.uid}/{what}", 12)


def _claim(job: Job, name: str, spec: Object) -> Object:
    return {
        "apiVersion": PERSISTENT_VOLUME_CLAIM.api_version,
        "kind": PERSISTENT_VOLUME_CLAIM.kind,
        "metadata": names.metadata(job, name),
        "spec": spec,
    }
