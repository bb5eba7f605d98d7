"""DRAFT."""

from __future__ import annotations

from pathlib import Path

TINY_PATH: Path = Path(__file__).parent / "weights"
"""Folder of the model and its tokenizer, for ``from_pretrained``."""
