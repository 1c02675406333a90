"""The pages name modules, functions and other pages that exist."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.support.paths import ROOT
from tests.support.tables import for_each
from workers.api import crds
from workers.controllers.claims import binding
from workers.decision import claims
from workers.settings import Settings

PAGES = [
    *sorted((ROOT / "docs").rglob("*.md")),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
]
#: Folders that a page's short paths may be below, besides the root.
BASES = (
    *("", "deploy/local", "deploy/local/apiserver", "workers/controllers/batch/cronjob"),
    *("workers/controllers/keda/scaledobject", "workers/controllers/volcano/podgroup"),
    *("tests/unit/scalers", "tests/unit/scheduler", "tests/integration/scalers"),
)
_CODE = re.compile(r"`(?P<path>[a-z_0-9/]+\.py)(?:: (?P<name>[A-Za-z_][\w.]*))?`")
_LINK = re.compile(r"\]\((?!https?:)(?P<target>[^)#\s]+)(?:#[^)]*)?\)")


def names(file: Path) -> set[str]:
    """Returns the functions, classes and methods of a module, methods as ``Class.method``."""
    found = set()
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
            members = node.body if isinstance(node, ast.ClassDef) else []
            functions = (each for each in members if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
            found |= {f"{node.name}.{each.name}" for each in functions}
    return found


def missing(page: Path) -> Iterator[str]:
    """Returns the modules and functions that a page names and that are not there."""
    for match in _CODE.finditer(page.read_text()):
        files = [file for base in BASES if (file := ROOT / base / match["path"]).is_file()]
        if not files or (match["name"] and not any(match["name"] in names(file) for file in files)):
            yield match[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_modules_and_functions_that_a_page_names_exist(page: Path) -> None:
    assert list(missing(page)) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_a_page_links_to_exist(page: Path) -> None:
    targets = [match["target"] for match in _LINK.finditer(page.read_text())]
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_the_map_names_every_page() -> None:
    """Runbooks are named by the page of the alerts."""
    folder = ROOT / "docs"
    named = {match["target"] for match in _LINK.finditer((folder / "README.md").read_text())}
    pages = {page.relative_to(folder).as_posix() for page in folder.rglob("*.md") if page.parent.name != "runbooks"}
    assert pages - named == {"README.md"}


def anchors(page: Path) -> set[str]:
    """Returns the anchors of a page's headings, spelled as GitHub does."""
    outside = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    titles = re.findall(r"^#+ (.+)$", outside, re.MULTILINE)
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title) for title in titles)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_headings_that_a_page_links_to_exist(page: Path) -> None:
    wrong = []
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)#([^)\s]+)\)", page.read_text()):
        there = page.parent / target if target else page
        if there.suffix == ".md" and there.exists() and anchor not in anchors(there):
            wrong.append(f"{target}#{anchor}")
    assert wrong == []


def test_the_way_to_remove_an_installation_deletes_the_objects_of_every_kind_that_may_carry_a_finalizer() -> None:
    text = (ROOT / "docs" / "install.md").read_text().partition("## Removing it")[2].partition("helm uninstall")[0]
    deleted = {
        name for names in re.findall(r"^kubectl delete (\S+) --all -A", text, re.MULTILINE) for name in names.split(",")
    }
    # Objects of Volcano's kinds carry none.
    groups = ("keda.sh", "penstock.dev")
    assert {crd["spec"]["names"]["plural"] for crd in crds.all_crds() if crd["spec"]["group"] in groups} == deleted


def test_definitions_are_applied_in_one_way_which_no_other_manager_of_their_fields_refuses() -> None:
    """A server-side apply conflicts with whoever has applied another version, such as Volcano's own chart."""
    guides = [*PAGES, *(ROOT / "deploy" / "kustomize").rglob("*.md"), *(ROOT / "deploy" / "helm").rglob("*.txt")]
    applied = re.compile(r"penstock crds \| kubectl[^`\n#]*|kubectl apply[^`\n#]* deploy/crds")
    found = {" ".join(match.split()) for page in guides for match in applied.findall(page.read_text())}
    assert found <= {
        "penstock crds | kubectl apply -f -",
        "penstock crds | kubectl apply",
        "kubectl apply -f deploy/crds",
    }


def chart_values(page: Path) -> Iterator[str]:
    """Yields the chart's values that a page sets, as `name.name`: those of `--set`, and `name=value` in a sentence."""
    text = page.read_text()
    yield from re.findall(r"--set[ =]'?([\w.]+)=", text)
    yield from re.findall(r"`'?((?:[a-z]\w*\.)+[a-zA-Z]+|namespaces|mode)=[^`\s]+`", text)


GUIDES = [*PAGES, ROOT / "deploy" / "helm" / "penstock" / "README.md"]


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_values_of_the_chart_that_a_page_sets_exist(page: Path) -> None:
    values = yaml.safe_load((ROOT / "deploy" / "helm" / "penstock" / "values.yaml").read_text())
    unknown = []
    for name in chart_values(page):
        *folders, last = name.split(".")
        place = values
        for folder in folders:
            place = place.get(folder) or {}
        # Settings are those of `penstock settings`.
        known = Settings.model_fields if folders == ["settings"] else place
        if last not in known:
            unknown.append(name)
    assert unknown == []


@for_each(("from-keda.md", "crds.keda"), ("from-volcano.md", "crds.install"))
def test_the_way_from_another_system_leaves_its_definitions_out_of_the_release(page: str, value: str) -> None:
    """Helm refuses to take over an object that another release or kubectl made."""
    assert f"`{value}=false`" in (ROOT / "docs" / "howto" / page).read_text()


def test_values_of_the_chart_are_found_on_the_pages() -> None:
    found = {name for page in GUIDES for name in chart_values(page)}
    assert {"namespaces", "crds.keda", "volcano.enabled", "settings.page", "broker.existingSecret"} <= found


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_list_that_a_page_gives_helm_is_quoted(page: Path) -> None:
    """A shell makes several words of `a={b,c}`, and helm reads the first."""
    assert re.findall(r"(?<!')\b[\w.]+=\{[\w-]+,[^}`']*\}(?!')", page.read_text()) == []


def test_the_way_from_keda_never_leaves_the_list_of_namespaces_empty() -> None:
    """An empty list means all namespaces, which are KEDA's until they move."""
    text = (ROOT / "docs" / "howto" / "from-keda.md").read_text()
    lists = re.findall(r"namespaces=\{([^}]*)\}|PENSTOCK_NAMESPACES=(\S*?)`", text)
    assert lists
    named = [next(filter(None, pair), "").split(",") for pair in lists]
    assert all(names[0] == "penstock" for names in named), "Penstock's own namespace comes first, and stays"


@for_each(
    ("claims.md", f"more than {binding.LONGEST_VARIABLE:,} bytes, for Linux"),
    ("claims.md", f"more than {claims.LARGEST:,} bytes fits into no annotation"),
    ("python-api.md", f"and a Job can carry {claims.LARGEST}"),
)
def test_a_limit_that_a_page_names_is_that_of_the_code(page: str, text: str) -> None:
    assert text in " ".join((ROOT / "docs" / page).read_text().split())


def test_a_definition_fits_into_the_annotation_in_which_kubectl_keeps_what_it_applied() -> None:
    assert max(len(json.dumps(crd)) for crd in crds.all_crds()) < 2**18
