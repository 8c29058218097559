"""Measurements on a local control plane: `python -m benchmarks`. Their results are ratios of one run, and bytes."""
