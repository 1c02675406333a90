"""The generator of docs/reasons.md, reasons of Events and conditions: ``python -m deploy.reasons_reference``."""

from collections.abc import Iterable, Iterator

from deploy.reason_meanings import CONDITIONS, EVENTS, ReasonMeaning

INTRODUCTION = """# Reasons in Events and conditions

<!-- Made by `python -m deploy.reasons_reference`; a test compares it with the controllers. -->

Penstock's controllers write these reasons. `penstock describe KIND/NAME` shows an object's conditions and Events,
`kubectl get events` those of a namespace; `penstock explain KIND/NAME` adds the decisions behind them. Equal Events
become one with a count.

"CronJobs" are Kubernetes' and Volcano's. Names are those of KEDA, Kubernetes and Volcano where these have the Event or
condition. Events of pods are the kubelet's, and not here. An empty last column asks for nothing.
"""


def render() -> str:
    """Returns the whole page as Markdown."""
    return "\n".join(
        [
            INTRODUCTION,
            *("## Events", "", "| reason | type | kinds | meaning | what to do |", *_table(EVENTS)),
            *("## Conditions", "", "| reason | condition | kinds | meaning | what to do |", *_table(CONDITIONS)),
        ]
    )


def _table(rows: Iterable[ReasonMeaning]) -> Iterator[str]:
    yield "|---|---|---|---|---|"
    for row in sorted(rows, key=lambda one: (one.reason.lower(), one.about)):
        yield f"| `{row.reason}` | {row.about} | {row.kinds} | {row.meaning} | {row.action} |"
    yield ""


if __name__ == "__main__":
    print(render(), end="")
