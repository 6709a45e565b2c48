"""`python -m services.workers.maintenance`: do what may come late."""

import sys

from stanchion.runtime.lifecycle import main

from .app import build

if __name__ == "__main__":
    sys.exit(main(build))
