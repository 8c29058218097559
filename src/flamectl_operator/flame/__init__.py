"""The client of Flame's session manager and its answers. This room knows no Kubernetes."""
