"""Manifests as the page shows them: YAML without secrets.

Values of variables, annotations and fields whose names speak of secrets are masked, and so are passwords in addresses:
the page may be read without a login. What a name does not reveal is shown, as `kubectl get -o yaml` shows it.
"""

import re
from typing import Any

import yaml

from workers.api.kinds import SECRET, Kind, Object

MASK = "***"
#: Names whose values are masked. A reference to a Secret (`secretKeyRef`, `passwordFrom...`) is an object, and shown.
_SECRETIVE = re.compile(
    r"pass(word|wd|phrase)?$|secret$|token$|credential|api_?-?key|access_?-?key|private_?-?key|connection_?-?string"
    r"|authorization$|\bdsn$|sas$",
    re.IGNORECASE,
)
#: A password in an address.
_PASSWORD = re.compile(r"(?P<before>[a-z][a-z0-9+.-]*://[^/@\s:]*:)[^@\s/]+@", re.IGNORECASE)
#: kubectl's copy of the whole manifest: it repeats everything, unmasked.
_LEFT_OUT_ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"


def text(kind: Kind, body: Object) -> str:
    """Returns an object's manifest as YAML, without managedFields and with secrets masked."""
    shown = masked(body)
    metadata = shown.get("metadata")
    if isinstance(metadata, dict):
        metadata.pop("managedFields", None)
        annotations = metadata.get("annotations")
        if isinstance(annotations, dict):
            annotations.pop(_LEFT_OUT_ANNOTATION, None)
    if kind.id == SECRET.id:
        shown = {name: value for name, value in shown.items() if name not in ("data", "stringData")}
    return yaml.safe_dump(shown, sort_keys=False, allow_unicode=True, width=120)


def masked(value: Any, name: str = "") -> Any:
    """Returns a copy of a value with secrets masked. name: of the field or variable that holds it."""
    if isinstance(value, dict):
        called = value.get("name")
        if isinstance(called, str) and isinstance(value.get("value"), str):
            # A variable of a container, or a parameter of that form.
            return {key: masked(each, called if key == "value" else key) for key, each in value.items()}
        return {key: masked(each, str(key)) for key, each in value.items()}
    if isinstance(value, list):
        return [masked(each, name) for each in value]
    if isinstance(value, str):
        if value and _SECRETIVE.search(name) and not _is_reference(name):
            return MASK
        return _PASSWORD.sub(rf"\g<before>{MASK}@", value)
    return value


def _is_reference(name: str) -> bool:
    """Returns True for fields that name where a secret is, such as KEDA's `passwordFromEnv` and `imagePullSecrets`."""
    return name.endswith(("FromEnv", "FromFile", "Secrets", "SecretName")) or name in ("secret", "secretName")
