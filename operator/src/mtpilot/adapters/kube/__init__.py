"""The Kubernetes API: `kubernetes.aio` as a transport of plain dicts, and what mtpilot reads and writes there.

Generated models drop unknown fields, so no live object ever passes through one; writes are server-side applies.
"""
