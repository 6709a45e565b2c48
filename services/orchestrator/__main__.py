"""`python -m services.orchestrator`: keep runs moving."""

import sys

from stanchion.runtime.lifecycle import main

from .app import build

if __name__ == "__main__":
    sys.exit(main(build))
