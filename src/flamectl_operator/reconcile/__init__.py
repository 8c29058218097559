"""The tools that the steps of a pass share: cluster I/O, the status writer, dry runs, and the deletion lock."""
