"""What is found out before a Pod is created or deleted: by dry runs, and by a look at the claims that it would mount."""
