"""Writing together: length, summary and expansion games."""
