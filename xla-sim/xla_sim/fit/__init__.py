"""Does the full-size model fit? One training step without memory: placeholders, shardings, a slice, and a search."""
