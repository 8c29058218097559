"""The raw client of the API server, and the cache of its objects.

    connection -> transport -> limiting -> retrying -> client -> reflector -> store
                                                              -> events

A transport sends bytes and turns failures into the errors of `errors`. The client knows the verbs of the API and decodes objects
into the views of `views`: `client` declares the verbs, `api_server_client` sends them to a real API server. A reflector keeps a
store equal to the server's state. Nothing here knows Flame.
"""
