"""Removes what programs leave in files, whatever they made of it."""

from __future__ import annotations

import os


def remove(path: str, as_far_as_possible: bool = False) -> None:
    """Remove a file or a folder, however deep or locked its contents are; a link is removed and never followed.

    Folders in it move up beside it one by one, so that depth costs neither stack nor long paths.

    Args:
        path: Of the file or folder; nothing happens if there is none.
        as_far_as_possible: Leave what is not ours to remove, instead of raising ``OSError``.
    """
    mark, waiting, moved = os.urandom(8).hex(), [path], 0
    while waiting:
        top = waiting.pop()
        try:
            if not is_folder(top):
                if os.path.lexists(top):
                    os.unlink(top)
                continue
            for name in unlocked(top):
                below = f"{top}/{name}"
                if is_folder(below):
                    moved += 1
                    beside = f"{os.path.dirname(path)}/{mark}-{moved}"
                    unlocked(below)
                    os.rename(below, beside)
                    waiting.append(beside)
                else:
                    os.unlink(below)
            os.rmdir(top)
        except OSError:
            if not as_far_as_possible:
                raise


def is_folder(path: str) -> bool:
    """Whether a path is a folder itself, and no link to one."""
    return os.path.isdir(path) and not os.path.islink(path)


def unlocked(folder: str) -> list[str]:
    """Names in a folder, which may be changed from now on."""
    os.chmod(folder, 0o700)
    return os.listdir(folder)
