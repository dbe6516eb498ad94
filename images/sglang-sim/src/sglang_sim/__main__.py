"""`python -m sglang_sim`: the console script without its entry point."""

from sglang_sim.main import main

main()
