"""The places of a command line that an interpreter runs as code, where no text of an event may stand.

A text of an event in a script would be a part of that script. The rule errs on the side of refusing: any word of the
command line that is an interpreter's name counts as one.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_SHELLS = (
    "sh|bash|dash|ash|zsh|ksh|mksh|pdksh|oksh|rksh|csh|tcsh|fish|rbash|yash|hush|osh|nu|xonsh|elvish|busybox|toybox|pwsh"
    "|powershell|cmd"
)
_LANGUAGES = (
    "python[0-9.]*(?:-dbg)?|pypy[0-9.]*|micropython|ipython|node|nodejs|deno|bun|perl[0-9.]*|ruby[0-9.]*|php[0-9.]*"
    "|lua[0-9.]*|luajit|tclsh|wish|expect|groovy|scala|kotlin|jshell|julia|R|Rscript|elixir|iex|erl|escript|ghc|runghc|guile|sbcl|clojure|osascript"
    "|ts-node|tsx|raku|octave|awk|gawk|mawk|nawk|sed|gsed|jq|yq|bc|dc|m4|make|vim|vi|ed|emacs|gdb|psql|mysql|mariadb"
    "|sqlite3|mongo|mongosh|cqlsh|redis-cli|valkey-cli|clickhouse|clickhouse-client"
)
_WRAPPERS = (
    "env|eval|exec|command|sudo|su|runuser|doas|gosu|su-exec|setpriv|chroot|unshare|nsenter|timeout|nice|ionice|nohup"
    "|setsid|stdbuf|time|xargs|parallel|watch|flock|tini|dumb-init|catatonit|ssh|find|script|start-stop-daemon|s6-setuidgid"
    "|strace|ltrace|taskset|numactl|prlimit|chrt|chpst|systemd-run|bwrap|firejail|unbuffer|rlwrap|xvfb-run|dbus-run-session"
    "|faketime|npx|bunx"
)
#: Wrappers that put all their arguments together to a script.
_JOINING = frozenset({"eval", "watch", "parallel", "ssh"})
#: Wrappers whose first operand is a user, a folder or a file, and the program stands behind it.
_AFTER_OPERAND = frozenset({"gosu", "su-exec", "chroot", "flock", "s6-setuidgid", "faketime"})
#: Options of wrappers whose argument is a name and no program: sudo -u, env -C, strace -o.
_NAMING_OPTION = re.compile(r"-[uUgGhoC]|--(?:user|group|unset|chdir|output)")
_INTERPRETER = re.compile(rf"(?:(?:{_SHELLS})(?:-?[0-9][0-9.]*)?|{_LANGUAGES})(?:\.exe)?", re.IGNORECASE)
_WRAPPER = re.compile(rf"(?:{_WRAPPERS})(?:\.exe)?", re.IGNORECASE)
#: The option of env whose argument is a command line: env -S "sh -c".
_SPLIT_OPTION = re.compile(r"-[A-Za-z0]*S(.*)|--split-string(?:=(.*))?", re.DOTALL)
#: An option behind which code stands: -c, -lc, -e, -ne, -p, -r, --eval, --command and the like, and /c.
_CODE_OPTION = re.compile(
    r"-[A-Za-z0-9]*[cefprxEMCX][A-Za-z0-9]*|--?[A-Za-z-]*(?:eval|execute|exec|command|expression|print|run|file|code|require|import|query)s?|/[ckCK]"
)

#: Variables from which interpreters and the linker take code, or places to find it.
_LOADING = re.compile(
    "BASH_ENV|ENV|ZDOTDIR|SHELLOPTS|BASHOPTS|BASH_FUNC_.*|PS4|PROMPT_COMMAND|IFS|PATH|LD_.*|DYLD_.*|GCONV_PATH"
    "|PYTHON(?:PATH|STARTUP|HOME|INSPECT|BREAKPOINT|WARNINGS)|NODE_OPTIONS|NODE_PATH|PERL5OPT|PERL5LIB|PERL5DB|PERLLIB"
    "|RUBYOPT|RUBYLIB|JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|JDK_JAVA_OPTIONS|CLASSPATH|PHPRC|PHP_INI_SCAN_DIR|LUA_INIT.*"
    "|LUA_C?PATH.*|R_PROFILE.*|R_ENVIRON.*|DOTNET_STARTUP_HOOKS|MAKEFLAGS|MAKEFILES|GIT_SSH.*|GIT_CONFIG.*"
    "|GIT_EXTERNAL_DIFF|GIT_PAGER|PAGER|EDITOR|VISUAL",
    re.DOTALL,
)

_ADVICE = "read the variable PENSTOCK_EVENT_DATA or the file /var/run/penstock/event in it instead"


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a command line. field: where it stands in the manifest. given: an event gives some of its text."""

    field: str
    text: str
    given: bool


def loads(variable: str) -> bool:
    """Returns True for a variable that says which code programs load."""
    return bool(_LOADING.fullmatch(variable))


def problems(words: Sequence[Word], *, starts: bool) -> Iterator[tuple[str, str]]:
    """Yields field and problem of every word that an event must not give. starts: the first word is the program."""
    if starts and words and words[0].given:
        yield words[0].field, "an event may not say which program runs"
    found: dict[str, str] = {}
    words = tuple(_split(words))
    for place, word in enumerate(words):
        name = _program(word.text)
        if _INTERPRETER.fullmatch(name):
            found |= dict(_read_by(name, words[place + 1 :]))
        elif _WRAPPER.fullmatch(name):
            found |= dict(_run_by(name, words[place + 1 :]))
    yield from found.items()


def _split(words: Sequence[Word]) -> Iterator[Word]:
    """Yields the words as env passes them on: it splits the argument of -S at spaces."""
    behind_env, splits = False, False
    for word in words:
        option = _SPLIT_OPTION.fullmatch(word.text) if behind_env and not word.given else None
        rest = (option[1] or option[2] or "") if option else word.text
        if option or splits:
            yield from (Word(word.field, text, word.given) for text in rest.split())
        else:
            yield word
        behind_env, splits = behind_env or _program(word.text) == "env", bool(option) and not rest


def _read_by(name: str, words: Sequence[Word]) -> Iterator[tuple[str, str]]:
    """Yields the words that the interpreter `name` reads as code."""
    begun, code = False, False
    for word in words:
        if word.given and (code or not begun):
            yield word.field, _refusal(name)
        begun = begun or code or (not word.given and _is_script(word.text))
        code = bool(_CODE_OPTION.fullmatch(word.text))


def _run_by(name: str, words: Sequence[Word]) -> Iterator[tuple[str, str]]:
    """Yields the words that the wrapper `name` reads as code, or as the program that it runs."""
    operands = 1 if name in _AFTER_OPERAND else 0
    begun, code, names = False, False, False
    for word in words:
        if word.given and (code or not begun or name in _JOINING):
            yield word.field, _refusal(name)
        # A number is a time, a priority or a mask.
        if not word.given and not names and (code or _is_script(word.text)) and not word.text[:1].isdigit():
            begun, operands = begun or code or not operands, max(0, operands - 1)
        code, names = bool(_CODE_OPTION.fullmatch(word.text)), bool(_NAMING_OPTION.fullmatch(word.text))


def _refusal(name: str) -> str:
    return f"{name} reads it as code or as an option, and an event could say anything: {_ADVICE}"


def _program(text: str) -> str:
    return text.replace("\\", "/").rpartition("/")[2]


def _is_script(text: str) -> bool:
    return bool(text) and not text.startswith(("-", "+")) and "=" not in text
