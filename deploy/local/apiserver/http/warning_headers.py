"""The Warning header: what clients show their users beside an answer.

It is made of texts that clients have sent, names of unknown fields for instance, so it must hold for any of them: an
object is stored by the time its warnings are sent.
"""

import re
from collections.abc import Iterator, Sequence

#: Characters of all warnings together; beyond them each is cut to `_CUT`, and those that do not fit then are left out.
#: The numbers are kube-apiserver's. Clients refuse headers that are much longer.
_TOTAL, _CUT = 4096, 256
#: What ends a header or a line, or cannot be sent: it is written as Go and Python write it in a quoted text.
_UNPRINTABLE = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029\\ud800-\\udfff]")


def of(warnings: Sequence[str]) -> dict[str, str]:
    """Returns the header with these warnings, each once."""
    texts = list(dict.fromkeys(warnings))
    if sum(map(len, texts)) > _TOTAL:
        texts = list(_cut(texts))
    return {"Warning": ", ".join(f'299 - "{_quoted(text)}"' for text in texts)}


def _cut(texts: Sequence[str]) -> Iterator[str]:
    written = 0
    for text in texts:
        if written >= _TOTAL:
            return
        written += len(text[:_CUT])
        yield text[:_CUT]


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    # Two backslashes: one of them is the quoted text's own escape.
    return _UNPRINTABLE.sub(lambda match: "\\\\" + match[0].encode("unicode_escape").decode()[1:], escaped)
