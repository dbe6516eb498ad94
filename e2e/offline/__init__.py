"""A kind cluster's images where no container registry can be reached: made from Debian packages and Go modules.

Needs root on Debian 12 or later, or a running docker and debootstrap. Mirrors are the machine's own: apt's sources, Go's proxy, pip's
index. Everything is kept in the user cache under the digest of what it was made from, appears there whole or not at all, and is found
again by the next run.
"""
