"""`python -m services.task_service`: the one door for people and programs."""

import sys

from stanchion.runtime.lifecycle import main

from .app import build

if __name__ == "__main__":
    sys.exit(main(build))
