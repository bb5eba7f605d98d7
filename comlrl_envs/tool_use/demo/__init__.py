"""Demo sets of tool use: requests, and small machines that carry them out."""
