"""Decisions: pure functions that compare desired with observed objects, without I/O or a clock."""
