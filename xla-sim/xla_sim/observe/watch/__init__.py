"""What is watched inside the program, one thing a module: modules, single ops, optimizers, early reads, eager results."""
