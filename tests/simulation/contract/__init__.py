"""What the operator relies on in an API server, as tests that the model and a real one both have to pass."""
