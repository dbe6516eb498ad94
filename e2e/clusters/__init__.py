"""Clusters that mtpilot is developed and tested on; `local` needs neither root nor a container runtime."""
