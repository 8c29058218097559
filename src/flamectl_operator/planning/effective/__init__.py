"""The spec that applies in a pass: what the author asks for, adjusted by what the status remembers."""
