"""The process around the operator: command line, options, start-up, replica, live settings and monitoring."""
