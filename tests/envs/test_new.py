import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import comlrl_envs
from comlrl_envs import OptionError
from comlrl_envs.cli import main
from comlrl_envs.cli.new import check_name, render, write_skeleton
from comlrl_envs.registry import PLUGINS

ROOT = Path(__file__).resolve().parents[2]
NAME, PACKAGE = "word-games", "word_games"


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("new") / NAME
    assert main(["new", NAME, "--folder", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def installed(written, tmp_path_factory) -> dict[str, str]:
    """Environment variables under which the built and installed plug-in is found."""
    pytest.importorskip("setuptools", minversion="77")
    pytest.importorskip("pip")
    source = tmp_path_factory.mktemp("build") / NAME
    shutil.copytree(written, source)
    target = tmp_path_factory.mktemp("site")
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--target", str(target)]
    run([sys.executable, "-m", "pip", "install", *options, str(source)], dict(os.environ))
    return {**os.environ, "PYTHONPATH": str(target)}


def run(command: list[str], environment: dict[str, str], folder: Path | None = None, given: str = "") -> str:
    ran = subprocess.run(command, input=given, env=environment, cwd=folder, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_it_writes_a_package(written, capsys):
    files = {str(path.relative_to(written)) for path in written.rglob("*") if path.is_file()}
    assert files == {
        "README.md",
        "pyproject.toml",
        f"{PACKAGE}/__init__.py",
        f"{PACKAGE}/lost_property.py",
        f"{PACKAGE}/py.typed",
        "tests/test_lost_property.py",
    }
    project = (written / "pyproject.toml").read_text()
    assert f'[project.entry-points."{PLUGINS}"]' in project
    assert f'"comlrl-envs>={importlib.metadata.version("comlrl-envs")}"' in project


def test_no_mark_of_the_templates_is_left():
    assert [path for path, text in render(NAME, PACKAGE).items() if re.search(r"@[A-Z]+@", text)] == []


def test_a_person_can_play_what_was_installed(installed):
    words = "<note>a black scarf in the park</note>\n.\n<answer>park</answer>\n.\n"
    command = [sys.executable, "-m", "comlrl_envs", "play", f"{PACKAGE}/lost_property", "--seed", "0"]
    shown = run(command, installed, given=words)
    assert "The note: a black scarf in the park" in shown
    assert re.search(r"Turn 2 of 2: reward 1\n", shown)
    assert "sum of rewards 1." in shown


def test_what_was_installed_is_listed_and_made(installed):
    assert f"{PACKAGE}/lost_property-v0" in run([sys.executable, "-m", "comlrl_envs", "list"], installed)
    code = (
        "import comlrl_envs, pickle; from collections import Counter\n"
        f"sets = [comlrl_envs.make('{PACKAGE}/lost_property', split=s).tasks for s in ('train', 'eval')]\n"
        "print([len(tasks) for tasks in sets])\n"
        "print([sorted(Counter(t.fields['asked'] for t in tasks).values())[0] >= 8 for tasks in sets])\n"
        "words = [{t.fields[f] for t in tasks for f in ('colour', 'thing', 'place')} for tasks in sets]\n"
        "print(words[0] & words[1])\n"
    )
    assert run([sys.executable, "-c", code], installed).split("\n")[:3] == ["[60, 30]", "[True, True]", "set()"]


def test_its_own_tests_pass(written, installed):
    shown = run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], installed, written)
    assert "2 passed" in shown


def test_it_follows_the_style_of_this_project(written):
    pytest.importorskip("ruff")
    settings = ["--config", str(ROOT / "pyproject.toml"), "--no-cache"]
    run([sys.executable, "-m", "ruff", "check", *settings, str(written)], dict(os.environ))
    run([sys.executable, "-m", "ruff", "format", "--check", *settings, str(written)], dict(os.environ))
    run([sys.executable, "-m", "ruff", "check", "--no-cache", str(written)], dict(os.environ))


@pytest.mark.slow
def test_its_types_are_strict(written, tmp_path):
    pytest.importorskip("mypy")
    environment = {**os.environ, "MYPYPATH": str(ROOT)}
    settings = ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(tmp_path)]
    run([sys.executable, "-m", "mypy", *settings, "-p", PACKAGE], environment, written)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("", "expected lower-case letters"),
        ("Word Games", "Did you mean 'word_games'"),
        ("../escape", "Did you mean 'escape'"),
        ("9lives", "Did you mean 'lives'"),
        ("a__b", "Did you mean 'a_b'"),
        ("a-", "Did you mean 'a'"),
        ("ünder", "Did you mean 'nder'"),
        ("class", "means something to Python"),
        ("json", "means something to Python"),
        ("tests", "means something to Python"),
        ("writing", "is a family of environments that comlrl-envs ships"),
        ("numpy", "is a package of that name already"),
        ("comlrl-envs", "is a package of that name already"),
    ],
)
def test_bad_names_are_refused(name, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OptionError, match=re.escape(says)):
        write_skeleton(name, tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


def test_a_good_name_is_importable():
    assert check_name("word-games2_x") == "word_games2_x"


def test_a_folder_that_holds_something_is_left_alone(tmp_path, capsys):
    (tmp_path / "notes.txt").write_text("mine")
    assert main(["new", NAME, "--folder", str(tmp_path)]) == 1
    assert "not an empty folder" in capsys.readouterr().err
    with pytest.raises(OptionError, match="not an empty folder"):
        write_skeleton(NAME, tmp_path / "notes.txt")
    with pytest.raises(OptionError, match="cannot be written"):
        write_skeleton(NAME, tmp_path / "notes.txt" / "below")
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_by_default_it_writes_into_a_folder_of_the_name_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / NAME).mkdir()
    assert main(["new", NAME]) == 0
    assert (tmp_path / NAME / PACKAGE / "__init__.py").is_file()


def test_the_templates_are_part_of_an_installed_package():
    skeleton = Path(comlrl_envs.__file__).parent / "skeleton"
    assert len(list(skeleton.rglob("*.txt"))) == 6
    assert "skeleton/**/*.txt" in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_the_readme_and_the_last_line_bring_what_its_tests_need(tmp_path, capsys):
    assert main(["new", NAME, "--folder", str(tmp_path / NAME)]) == 0
    assert f'pip install -e "{tmp_path / NAME}[dev]"' in capsys.readouterr().out
    readme = (tmp_path / NAME / "README.md").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
    for text, extra in ((readme, '".[dev]"'), (page, '"word-games[dev]"')):
        assert f"pip install -e {extra}" in text and "python -m pytest" in text
