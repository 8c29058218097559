"""What the operator says to Flame's session manager, and hears from it. This room knows no Kubernetes."""
