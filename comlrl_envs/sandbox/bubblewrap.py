"""The command line of ``bwrap`` around a worker's process, and the test whether it works on this machine.

Inside there are the interpreter with its standard library, the named packages, the worker's scratch folder, small
``/tmp`` and ``/dev/shm`` in memory, and processes of the worker alone; no network, no other user's id, no variable of
the environment. Nothing else is writable.
"""

from __future__ import annotations

import functools
import glob
import os
import shutil
import site
import subprocess
import sys
import sysconfig
from pathlib import Path

SYSTEM = ("/usr", "/lib", "/lib64", "/lib32", "/etc/ld.so.cache", "/etc/localtime", "/etc/ssl/openssl.cnf")
PACKAGES = "/packages"
"""Where the named packages lie inside."""
NOBODY = "65534"
PROBE_SECONDS = 30
MEMORY_FOLDERS = ("/tmp", "/dev/shm")
"""Empty folders in memory that are writable inside."""
MEMORY_FOLDER_BYTES = 16 << 20


def interpreter() -> str:
    """The interpreter without its virtual environment, whose folder then need not be seen inside."""
    return os.path.realpath(sys.executable)


def prefix(scratch: str, packages: dict[str, str]) -> list[str]:
    """The command line up to the program.

    Args:
        scratch: A folder that is writable inside, under the same path.
        packages: Files and folders by the name that they get in ``PACKAGES``.
    """
    command = [shutil.which("bwrap") or "bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--as-pid-1"]
    command += ["--unshare-user", "--uid", NOBODY, "--gid", NOBODY, "--cap-drop", "ALL", "--hostname", "sandbox"]
    for place in dict.fromkeys((*SYSTEM, *_interpreter_folders())):
        command += (
            ["--symlink", os.readlink(place), place] if os.path.islink(place) else ["--ro-bind-try", place, place]
        )
    covered = _installed_packages()
    for place in covered:
        command += ["--tmpfs", place]
    for name, place in packages.items():
        command += ["--ro-bind", place, f"{PACKAGES}/{name}"]
    command += ["--proc", "/proc", "--dev", "/dev"]
    for place in MEMORY_FOLDERS:
        command += [*(["--size", str(MEMORY_FOLDER_BYTES)] if _takes_sizes() else []), "--tmpfs", place]
    command += ["--bind", scratch, scratch, "--chdir", scratch]
    # Their own folders in memory have no limit.
    for place in ("/", "/dev", *covered):
        command += ["--remount-ro", place]
    return command


@functools.lru_cache(maxsize=1)
def _takes_sizes() -> bool:
    """Whether this ``bwrap`` can limit a folder in memory, which older ones cannot."""
    try:
        told = subprocess.run(["bwrap", "--help"], capture_output=True, timeout=PROBE_SECONDS, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        # What is wrong with it the try of it says.
        return False
    return b"--size " in told.stdout + told.stderr


def _interpreter_folders() -> list[str]:
    folders = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), sysconfig.get_config_var("LIBDIR")}
    folders |= {os.path.dirname(interpreter()), str(sysconfig.get_config_var("DESTSHARED") or "")}
    kept = sorted(str(Path(folder)) for folder in folders if folder and os.path.isdir(folder))
    return [folder for folder in kept if not folder.startswith(("/usr/", "/lib/", "/lib64/"))]


def _installed_packages() -> list[str]:
    """Folders with installed packages, which hold more than a program should find: data sets with answers, say."""
    found = {*site.getsitepackages(), *glob.glob("/usr/lib/python3*/dist-packages")}
    found |= {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    found |= set(glob.glob("/usr/local/lib/python3*/*-packages"))
    found |= set(glob.glob(os.path.join(sysconfig.get_path("stdlib"), "*-packages")))
    seen = [os.path.realpath(folder) for folder in found if os.path.isdir(folder)]
    roots = tuple(f"{root}/" for root in (*SYSTEM, *_interpreter_folders()))
    # What lies below a folder in memory is hidden by that.
    hidden = tuple(f"{place}/" for place in MEMORY_FOLDERS)
    return sorted({folder for folder in seen if folder.startswith(roots) and not folder.startswith(hidden)})


@functools.lru_cache(maxsize=1)
def problem() -> str | None:
    """Why ``bwrap`` does not work here, or None if a try of it worked."""
    if shutil.which("bwrap") is None:
        return "bwrap is not installed"
    command = [*prefix(os.path.realpath("/tmp"), {}), interpreter(), "-s", "-S", "-c", "print('works')"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=PROBE_SECONDS, env={}, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"a try of it failed: {error}"
    if done.returncode != 0 or done.stdout.strip() != b"works":
        return f"a try of it failed: {done.stderr.decode(errors='replace').strip()[:300] or done.returncode}"
    return None
