"""Measurements on a local control plane: `python -m benchmarks`.

Seconds say something about one machine only. So each row compares the operator with a bare loader that makes the same objects in
the same run, with 64 requests in flight and nothing to decide. docs/dev/benchmarks.md has the results.
"""
