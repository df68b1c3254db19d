"""Rules on what the runtime recorded: steps, compilations, reads, numbers, and the training itself."""
