"""`comlrl-envs new`."""

from __future__ import annotations

import importlib.util
import keyword
import re
import sys
from importlib import metadata
from pathlib import Path

from comlrl_envs.catalog import SHIPPED
from comlrl_envs.errors import OptionError
from comlrl_envs.registry import PLUGINS

_NAME = re.compile(r"[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*")
_TEMPLATES = Path(__file__).parents[1] / "skeleton"
_SUFFIX = ".txt"  # so that no tool takes a template for a module of this package


def command(name: str, folder: str | None = None) -> int:
    """Start a plug-in package with an environment of your own.

    Args:
        name: Of the package: lower-case letters and digits, with `-` or `_` between words.
        folder: Where to write it; it must be empty or not exist. Default: `name`, here.
    """
    package = check_name(name)
    target = Path(name if folder is None else folder)
    for path in write_skeleton(name, target):
        sys.stdout.write(f"{path}\n")
    sys.stdout.write(
        f'\npip install -e "{target}[dev]" makes the id {package}/lost_property known; '
        f"{target / 'README.md'} goes on.\n"
    )
    return 0


def check_name(name: str) -> str:
    """The import name of a package called ``name``.

    Raises:
        OptionError: ``name`` is no name for a package, or another package or a shipped family has it.
    """
    if not _NAME.fullmatch(name):
        plain = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_0123456789")
        near = f" Did you mean {plain!r}?" if _NAME.fullmatch(plain) else ""
        raise OptionError(
            f"name={name!r}; expected lower-case letters and digits, a letter first, with '-' or '_' between words, "
            f"such as 'word-games'.{near}"
        )
    package = name.replace("-", "_")
    if keyword.iskeyword(package) or package in sys.stdlib_module_names or package == "tests":
        raise OptionError(f"name={name!r} means something to Python already; choose another.")
    if package in {id.partition("/")[0] for id, _ in SHIPPED}:
        raise OptionError(f"name={name!r} is a family of environments that comlrl-envs ships; choose another.")
    found = importlib.util.find_spec(package)
    # An empty folder of that name counts as a package to Python, and has no origin.
    if found is not None and found.origin is not None:
        raise OptionError(f"name={name!r}: {found.origin} is a package of that name already; choose another.")
    return package


def write_skeleton(name: str, folder: Path) -> list[Path]:
    """Write the package ``name`` into ``folder`` and return the files written.

    Raises:
        OptionError: The folder holds something, or cannot be written.
    """
    package = check_name(name)
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise OptionError(f"{folder} exists and is not an empty folder; name another with --folder.")
        files = {folder / path: text for path, text in render(name, package).items()}
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as failure:
        raise OptionError(f"{folder} cannot be written ({failure}); name another with --folder.") from failure
    return sorted(files)


def render(name: str, package: str) -> dict[Path, str]:
    """The files of a package, by their path in it."""
    words = {"@NAME@": name, "@PACKAGE@": package, "@VERSION@": metadata.version("comlrl-envs"), "@GROUP@": PLUGINS}
    files: dict[Path, str] = {}
    for template in sorted(_TEMPLATES.rglob(f"*{_SUFFIX}")):
        text = template.read_text(encoding="utf-8")
        for word, value in words.items():
            text = text.replace(word, value)
        parts = template.relative_to(_TEMPLATES).with_suffix("").parts
        files[Path(*[package if part == "package" else part for part in parts])] = text
    return files
