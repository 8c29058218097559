"""The raw client: how the operator talks to an API server, and how it remembers what it was told.

    connection -> transport -> limiting -> retrying -> client -> reflector -> store
                                                              -> events

A transport moves bytes and turns failures into the errors of `errors`. The client knows the verbs of the API and decodes
into the views of `views`: `client` says what can be asked of one, `api_server_client` asks a real API server. A reflector
keeps a store equal to what the server has. Nothing here knows Flame.
"""
