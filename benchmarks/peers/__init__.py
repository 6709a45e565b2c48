"""Peers beside Stanchion, in one run on the same servers; each in an environment of its own."""
