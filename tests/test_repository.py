"""Rules that hold for the repository as a whole: examples run, files stay small, imports go one way."""

import ast
import importlib.metadata
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("comlrl_envs", "comlrl_learners")
FOLDERS = (*PACKAGES, "tests", "examples", "docs", ".ci")
MAX_LINES = 600
FORBIDDEN_WORDS = tuple(start + end for start, end in (("TO", "DO"), ("FIX", "ME")))
HEAVY = ("torch", "transformers", "wandb")
LOADED_WHERE_USED = (*HEAVY, "datasets", "rich", "jsonargparse", "comlrl_learners")

FENCE = re.compile(
    r"^(?P<skip><!-- no-run -->\s*?\n\s*)?(?P<ticks>```+)python[^\n]*\n(?P<code>.*?)^(?P=ticks)[ ]*$", re.M | re.S
)


def python_blocks(text: str) -> list[tuple[int, str]]:
    """The python blocks of a Markdown text that are to be run, each with the number of its first line."""
    found = [match for match in FENCE.finditer(text) if match["skip"] is None]
    return [(text.count("\n", 0, match.start("code")) + 1, match["code"]) for match in found]


def pages_with_examples() -> list[Path]:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in pages if page.exists() and python_blocks(page.read_text(encoding="utf-8"))]


def source_files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def text_files() -> Iterator[tuple[Path, str]]:
    """Every text file of the repository with its text; what was built or installed is not looked at."""
    tops = [path for path in ROOT.iterdir() if path.is_file()]
    nested = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file()]
    for path in sorted(tops + nested):
        if "__pycache__" in path.parts:
            continue
        try:
            yield path, path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


def imported_modules(tree: ast.AST) -> Iterator[str]:
    """Names that a module imports anywhere in it: statements, and calls of an import function with a literal."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
            yield node.module
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            name = ast.unparse(node.func).rpartition(".")[2]
            if name in ("import_module", "__import__") and isinstance(node.args[0].value, str):
                yield node.args[0].value


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_blocks_are_found_with_their_line_and_skipped_on_request():
    text = (
        "a\n\n```python\nx = 1\n```\n\n<!-- no-run -->\n```python\ny\n```\n\n```bash\nz\n```\n````python\n```\n````\n"
    )
    assert python_blocks(text) == [(4, "x = 1\n"), (16, "```\n")]


@pytest.mark.parametrize(
    "code", ["import torch.nn", "def f():\n    from torch import nn", "import importlib as i\ni.import_module('torch')"]
)
def test_every_form_of_import_is_seen(code):
    assert [name.partition(".")[0] for name in imported_modules(ast.parse(code))][-1] == "torch"


def test_the_readme_has_an_example():
    assert ROOT / "README.md" in pages_with_examples()


@pytest.mark.parametrize("page", pages_with_examples(), ids=relative)
def test_examples_run(page, tmp_path):
    """Blocks of one page run in order in one process, so that a later one may use an earlier one's names."""
    blocks = python_blocks(page.read_text(encoding="utf-8"))
    # Blank lines in front make a traceback name the line of the page.
    sources = [("\n" * (line - 1) + code) for line, code in blocks]
    script = tmp_path / "examples.py"
    script.write_text(
        "import json, pathlib\n"
        "if __name__ == '__main__':\n"
        f"    for source in json.loads({json.dumps(json.dumps(sources))}):\n"
        f"        exec(compile(source, {str(page)!r}, 'exec'), globals())\n",
        encoding="utf-8",
    )
    ran = subprocess.run([sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, f"{relative(page)}:\n{ran.stdout[-2000:]}\n{ran.stderr[-4000:]}"


def test_no_file_is_too_long():
    lengths = {relative(path): len(path.read_text(encoding="utf-8").splitlines()) for path in source_files(*PACKAGES)}
    assert lengths
    assert {name: length for name, length in lengths.items() if length > MAX_LINES} == {}


def test_no_file_leaves_work_behind():
    pattern = re.compile(rf"\b({'|'.join(FORBIDDEN_WORDS)})\b")
    assert [relative(path) for path, text in text_files() if pattern.search(text)] == []


def test_environments_import_neither_learners_nor_their_libraries():
    forbidden = {*HEAVY, "comlrl_learners"}
    sources = source_files("comlrl_envs")
    assert sources
    found = {
        relative(path): sorted(bad)
        for path in sources
        if (bad := forbidden & {n.partition(".")[0] for n in imported_modules(ast.parse(path.read_bytes()))})
    }
    assert found == {}


def test_importing_the_environments_loads_nothing_heavy():
    code = f"import comlrl_envs, sys; print(sorted(set({LOADED_WHERE_USED!r}) & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == "[]"


def declared_requirements() -> list[Requirement]:
    return [Requirement(text) for text in importlib.metadata.requires("comlrl-envs") or []]


def test_each_dependency_has_a_lower_bound():
    assert declared_requirements()
    assert [str(need) for need in declared_requirements() if not any(s.operator == ">=" for s in need.specifier)] == []


def test_constraints_pin_each_dependency_within_its_bounds():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = {
        canonicalize_name(p.name): p for p in map(Requirement, (line for line in lines if line[:1] not in ("", "#")))
    }
    for need in declared_requirements():
        (pin,) = pins[canonicalize_name(need.name)].specifier
        assert pin.operator == "=="
        assert need.specifier.contains(pin.version), f"{need} excludes the pinned {pin.version}"
