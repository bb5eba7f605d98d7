"""Writing programs together: a function and its helpers, or the methods of one class."""
