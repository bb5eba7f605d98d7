"""The pages of the documentation: one for each environment, in the navigation, with all that there is to know."""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from comlrl_envs import list_envs, spec
from comlrl_envs.catalog import SHIPPED
from comlrl_envs.description import describe

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"


def load_hooks() -> ModuleType:
    found = importlib.util.spec_from_file_location("docs_hooks", DOCS / "hooks.py")
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


hooks = load_hooks()
SETTINGS = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
NAMES = sorted({spec(id).name for id, _ in SHIPPED})


def in_nav(entry: Any) -> list[str]:
    if isinstance(entry, str):
        return [entry]
    return [page for part in (entry.values() if isinstance(entry, dict) else entry) for page in in_nav(part)]


def marked_pages() -> dict[str, Path]:
    pages = {}
    for path in sorted((DOCS / "environments").glob("*.md")):
        for mark in hooks.ONE.finditer(path.read_text(encoding="utf-8")):
            pages[spec(mark[1]).name] = path
    return pages


def test_every_shipped_environment_has_a_page_in_the_navigation():
    pages = marked_pages()
    assert sorted(pages) == NAMES
    listed = in_nav(SETTINGS["nav"])
    assert [str(page) for page in pages.values() if page.relative_to(DOCS).as_posix() not in listed] == []


def test_the_navigation_holds_every_page_once():
    listed = in_nav(SETTINGS["nav"])
    assert sorted(listed) == sorted(set(listed))
    assert {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")} <= set(listed)


def test_the_hook_is_registered_and_no_page():
    assert SETTINGS["hooks"] == ["docs/hooks.py"]
    assert "hooks.py" in SETTINGS["exclude_docs"].split()


@pytest.mark.parametrize("name", NAMES)
def test_the_page_holds_every_argument(name):
    page = hooks.expand(marked_pages()[name].read_text(encoding="utf-8"), {})
    known = describe(name)
    assert "<!-- environment:" not in page
    assert known.arguments
    assert [a.name for a in known.arguments if f"| `{a.name}` |" not in page] == []
    assert "Example transcript" in page and f"`{known.id}`" in page


def test_the_list_of_all_names_every_id():
    text = (DOCS / "environments" / "index.md").read_text(encoding="utf-8")
    page = hooks.expand(text, {name: path.name for name, path in marked_pages().items()})
    assert "<!-- environments -->" not in page
    for name in {spec(id).name for id in list_envs()} & set(NAMES):
        assert f"[`{name}`]({marked_pages()[name].name})" in page
