"""Demo sets of question answering: invented facts, generated from seeds, nothing of which stands anywhere else."""
