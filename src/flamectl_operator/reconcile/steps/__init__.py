"""The contract of a step, and the work that several steps share."""
