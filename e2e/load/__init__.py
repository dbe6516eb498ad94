"""Load against an OpenAI-compatible endpoint, with every answer checked.

One generator serves the demo and the integration tests, so that "no request lost" means the same thing in both: each
request carries a marker of its own, and its answer must be whole, its own and the only one. Load goes to loopback
addresses only and is bounded in count and time.
"""

from e2e.load.process import BackgroundLoad, background_load, run_load
from e2e.load.result import LoadResult, Outcome, Record
from e2e.load.schedule import Request, Schedule, steady

__all__ = ["BackgroundLoad", "LoadResult", "Outcome", "Record", "Request", "Schedule", "background_load", "run_load", "steady"]
