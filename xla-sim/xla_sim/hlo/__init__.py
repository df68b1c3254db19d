"""What does a graph say? XLA's messages: modules, instructions, loops, and how two graphs differ, in words.

The lowest room: it knows no program that ran, no chip and no rule.
"""
