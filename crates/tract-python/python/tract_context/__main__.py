"""The command line, as `tract` and as `python -m tract_context`."""

import signal
import sys

from tract_context import _native


def main() -> None:
    """Run the command line with the arguments of this process, and exit with its code."""
    # An interrupt ends the command as it ends the binary: Python's own handler would only be called
    # after the command returned.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(_native.run_command(sys.argv))


if __name__ == "__main__":
    main()
