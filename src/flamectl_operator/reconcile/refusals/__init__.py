"""What the API server refuses, and what to do about it."""
