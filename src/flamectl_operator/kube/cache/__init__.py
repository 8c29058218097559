"""The cache: stores that reflectors keep equal to the API server, and their indexes."""
