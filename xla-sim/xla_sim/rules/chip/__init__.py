"""Rules on what the TPU compiler said of the captured graphs, and its figures for the findings of the run."""
