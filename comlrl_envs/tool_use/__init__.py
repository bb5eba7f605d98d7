"""Teams that call tools: calls issued side by side, and calls against classes that keep state."""
