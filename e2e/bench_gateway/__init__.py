"""`make bench-gateway`: this gateway beside HAProxy's least-conn, SGLang's routers and no gateway at all, on the same simulated fleet."""
