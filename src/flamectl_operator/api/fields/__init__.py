"""The fields of the spec: a model for each, with its rules."""
