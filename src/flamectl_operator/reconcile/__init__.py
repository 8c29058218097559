"""The tools that the steps of a pass share: cluster I/O, the status writer, dry runs, and the deletion lock.

Whatever sends a request raises RefusedError when the API server rejects the request until a person acts (RBAC, admission, a
quota, the schema). It raises KubernetesError when the request failed for another reason, or its outcome is unknown. Docstrings
name only other errors, and errors with a special meaning.
"""
