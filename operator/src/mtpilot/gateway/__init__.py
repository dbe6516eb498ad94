"""The agent beside HAProxy: it keeps the servers of the gateway equal to the service's engine pods."""
