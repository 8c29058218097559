"""What to do about the difference between what should exist and what is there: pure functions, no I/O, no clock of their own."""
