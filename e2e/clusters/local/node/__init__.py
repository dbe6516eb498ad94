"""The process node: Nodes whose pods run as local processes, each pod on a loopback address of its own."""
