"""Properties of an API server that the operator relies on, as tests for the model and for a real API server."""
