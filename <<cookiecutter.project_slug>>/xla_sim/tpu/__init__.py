"""The TPU compiler without a TPU: chips, compilation in processes of their own, a cache, and what the compiler's answers mean."""
