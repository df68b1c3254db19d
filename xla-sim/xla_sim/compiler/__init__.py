"""The TPU compiler without a TPU: chips, one process a compilation, a queue, and a cache by content.

`libtpu` is the only module that touches jax and libtpu; what the compiler's answer means is told in `xla_sim.verdict`.
"""
