"""Demo sets of the writing family: posts and abstracts that were made up for this project."""
