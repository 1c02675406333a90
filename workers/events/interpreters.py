"""The places of a command line that an interpreter runs as code, where no text of an event may stand.

A text of an event in a script would be a part of that script. The rule errs on the side of refusing: any word of the
command line that is an interpreter's name counts as one.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

_SHELLS = "sh|bash|dash|ash|zsh|ksh|mksh|csh|tcsh|fish|rbash|busybox|pwsh|powershell|cmd|cmd\\.exe"
_LANGUAGES = (
    "python[0-9.]*|pypy[0-9.]*|ipython|node|nodejs|deno|bun|perl[0-9.]*|ruby[0-9.]*|php[0-9.]*|lua[0-9.]*|luajit|tclsh"
    "|wish|expect|groovy|scala|kotlin|jshell|julia|R|Rscript|elixir|iex|erl|escript|ghc|runghc|guile|sbcl|clojure|osascript"
    "|ts-node|tsx|raku|octave|awk|gawk|mawk|nawk|sed|gsed|jq|yq|bc|dc|m4|make|vim|vi|ed|emacs|gdb|psql|mysql|mariadb"
    "|sqlite3|mongo|mongosh|cqlsh|redis-cli|valkey-cli|clickhouse|clickhouse-client"
)
_WRAPPERS = (
    "env|eval|exec|command|sudo|su|runuser|doas|gosu|su-exec|setpriv|chroot|unshare|nsenter|timeout|nice|ionice|nohup"
    "|setsid|stdbuf|time|xargs|parallel|watch|flock|tini|dumb-init|catatonit|ssh|find|script|start-stop-daemon|s6-setuidgid"
)
_INTERPRETER = re.compile(rf"(?:{_SHELLS}|{_LANGUAGES})", re.IGNORECASE)
_WRAPPER = re.compile(rf"(?:{_WRAPPERS})", re.IGNORECASE)
#: An option behind which code stands: -c, -lc, -e, -ne, -p, -r, --eval, --command and the like, and /c.
_CODE_OPTION = re.compile(
    r"-[A-Za-z0-9]*[cefprxEMCX][A-Za-z0-9]*|--?[A-Za-z-]*(?:eval|execute|exec|command|expression|print|run|file|code|require|import|query)s?|/[ckCK]"
)

#: Variables from which interpreters and the linker take code, or places to find it.
LOADING = frozenset(
    {
        "BASH_ENV",
        "ENV",
        "SHELLOPTS",
        "BASHOPTS",
        "PS4",
        "PROMPT_COMMAND",
        "IFS",
        "PATH",
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
    }
    | {
        "LD_AUDIT",
        "PYTHONPATH",
        "PYTHONSTARTUP",
        "PYTHONHOME",
        "PYTHONINSPECT",
        "NODE_OPTIONS",
        "NODE_PATH",
        "PERL5OPT",
    }
    | {
        "PERL5LIB",
        "PERLLIB",
        "RUBYOPT",
        "RUBYLIB",
        "JAVA_TOOL_OPTIONS",
        "_JAVA_OPTIONS",
        "JDK_JAVA_OPTIONS",
        "CLASSPATH",
    }
    | {"PHPRC", "PHP_INI_SCAN_DIR", "LUA_INIT", "LUA_PATH", "GIT_SSH_COMMAND", "GIT_EXTERNAL_DIFF", "EDITOR", "VISUAL"}
)

_ADVICE = "read the variable PENSTOCK_EVENT_DATA or the file /var/run/penstock/event in it instead"


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a command line. field: where it stands in the manifest. given: an event gives some of its text."""

    field: str
    text: str
    given: bool


def problems(words: Sequence[Word], *, starts: bool) -> Iterator[tuple[str, str]]:
    """Yields field and problem of every word that an event must not give. starts: the first word is the program."""
    if starts and words and words[0].given:
        yield words[0].field, "an event may not say which program runs"
    found: dict[str, str] = {}
    for place, word in enumerate(words):
        name = word.text.replace("\\", "/").rpartition("/")[2]
        if _INTERPRETER.fullmatch(name):
            found |= dict(_read_by(name, words[place + 1 :], _is_script))
        elif _WRAPPER.fullmatch(name):
            found |= dict(_read_by(name, words[place + 1 :], _is_program))
    yield from found.items()


def _read_by(name: str, words: Sequence[Word], begins: Callable[[str], bool]) -> Iterator[tuple[str, str]]:
    """Yields the words that the program `name` reads as code. begins: says whether a word is its script or program."""
    begun, code = False, False
    for word in words:
        if word.given and (code or not begun):
            yield word.field, f"{name} reads it as code or as an option, and an event could say anything: {_ADVICE}"
        begun = begun or code or (not word.given and begins(word.text))
        code = bool(_CODE_OPTION.fullmatch(word.text))


def _is_script(text: str) -> bool:
    return bool(text) and not text.startswith(("-", "+")) and "=" not in text


def _is_program(text: str) -> bool:
    return _is_script(text) and not text[:1].isdigit()
