"""A package beside the scripts."""
