"""The objects that the operator keeps of all FlameClusters, and how large each may be."""
