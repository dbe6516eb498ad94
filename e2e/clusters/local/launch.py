"""Become another program, so that it is recorded and dies with the one that started it.

Run by path as a script (`python -I -S launch.py …`), standard library only. A wrapper that ends in exec is used in place of a hook
between fork and exec: such hooks are unsafe in programs with threads, and the record of the pid must exist before the program does
anything. The signal on the parent's death is what keeps a killed test run from leaving a cluster behind.
"""

import ctypes
import os
import sys

_PR_SET_PDEATHSIG = 1
_EXIT_NOT_STARTED = 127


def start_time(pid: int) -> str:
    """Give a process's start time in clock ticks since boot; together with the pid it names one process for ever."""
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:  # noqa: PTH123  pathlib doubles the start-up time
        return file.read().rpartition(")")[2].split()[19]


def main() -> int:
    """Arguments: parent's pid or 0, signal on its death, pid file, program, its arguments."""
    parent, death_signal, pid_file, *command = sys.argv[1:]
    if int(parent):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0)
        if os.getppid() != int(parent):  # it died before the line above
            return _EXIT_NOT_STARTED
    temporary = f"{pid_file}.{os.getpid()}"
    with open(temporary, "w", encoding="ascii") as file:  # noqa: PTH123
        file.write(f"{os.getpid()} {start_time(os.getpid())}\n")
    os.replace(temporary, pid_file)  # noqa: PTH105
    try:
        os.execvp(command[0], command)  # noqa: S606
    except OSError as error:
        sys.stderr.write(f"cannot run {command[0]}: {error.strerror}\n")
    return _EXIT_NOT_STARTED


if __name__ == "__main__":
    sys.exit(main())
