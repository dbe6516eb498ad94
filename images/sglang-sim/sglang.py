#!/opt/sglang-sim/bin/python
"""`sglang serve ARGUMENTS`, as the real package has it; the image has no shell to say it in."""

import sys

from sglang_sim.main import main

if sys.argv[1:2] != ["serve"]:
    sys.exit("sglang-sim knows only: sglang serve")
del sys.argv[1]
main()
