"""`python -m attentiontuner`."""

import sys

from attentiontuner.cli import main

if __name__ == "__main__":
    sys.exit(main())
