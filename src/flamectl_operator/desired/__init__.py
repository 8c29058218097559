"""What should exist for a FlameCluster: pure functions from its spec to plain Kubernetes objects."""
