"""The handshake of CloudEvents' HTTP 1.1 Web Hooks: a sender asks by OPTIONS whether it may deliver. Pure."""

from collections.abc import Mapping, Sequence

#: Methods of a target.
METHODS = "POST, OPTIONS"


def handshake(origins: Sequence[str], headers: Mapping[str, str]) -> dict[str, str]:
    """Returns the headers of the answer to OPTIONS.

    origins: those that the target allows, `*` all; none if there is no such target. headers: of the request, by
    lower-case name. An origin that is not allowed gets the answer of a request that asks for nothing.
    """
    asked = headers.get("webhook-request-origin", "").strip()
    answer = {"Allow": METHODS}
    if not asked or not _is_allowed(origins, asked):
        return answer
    answer["WebHook-Allowed-Origin"] = "*" if "*" in origins else asked
    if headers.get("webhook-request-rate", "").strip():
        # Senders are slowed down by 429 alone.
        answer["WebHook-Allowed-Rate"] = "*"
    return answer


def _is_allowed(origins: Sequence[str], asked: str) -> bool:
    # Names of hosts have no case.
    return "*" in origins or asked.lower() in {origin.lower() for origin in origins}
