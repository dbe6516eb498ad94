"""Everything that runs mtpilot as a whole: toolchain, clusters, scenarios and the demo.

Nothing under `operator/` imports from here: the product knows no test double and no cluster that it is tried on.
"""
