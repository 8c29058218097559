"""The refusals of the API server, and the advice about them."""
