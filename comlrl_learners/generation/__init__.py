"""Engines that write completions."""
