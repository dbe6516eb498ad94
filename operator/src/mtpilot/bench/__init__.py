"""Measuring an engine: what to send, what came back, and what it says.

Planning and statistics are pure; `client.py`, `engine.py` and `running.py` send, ask and wait.
"""
