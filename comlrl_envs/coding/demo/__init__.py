"""Demo sets of the coding family: small functions and classes that were made up for this project."""
