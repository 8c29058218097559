"""The checks before a Pod is created or deleted: dry runs, and a look at the claims and ConfigMaps that a new Pod would need."""
