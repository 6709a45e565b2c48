"""The sampler: writes what happened and what stands, every ten seconds; of all orchestrators one takes each slot."""

from __future__ import annotations

from stanchion.authority.samples import Samples

LOOK_SECONDS = 2.0
"""How often it looks whether a slot is over: who comes first takes it, and the others find it taken."""


class Sampler:
    """`run_once` takes the oldest slot that is over and missing; True when there may be another one."""

    def __init__(self, samples: Samples) -> None:
        self.samples = samples

    def run_once(self) -> bool:
        """Take one slot."""
        return self.samples.take() is not None
