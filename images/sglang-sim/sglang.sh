#!/bin/sh
# `sglang serve ARGUMENTS`, as the real package has it.
[ "$1" = serve ] || { echo "sglang-sim knows only: sglang serve" >&2; exit 2; }
shift
exec sglang-sim "$@"
