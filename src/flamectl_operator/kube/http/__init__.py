"""HTTP: connection, credentials, transport, rate limits, retries, and the encoding of objects."""
