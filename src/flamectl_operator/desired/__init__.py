"""Desired objects: pure functions from a FlameCluster's spec to plain Kubernetes objects."""
