"""Workers killed and frozen between row, content and flip: what is visible is whole, and nothing else is."""

from __future__ import annotations

import pytest
from fault_lanes import OutcomeLane, Shot
from kit.world import World

from stanchion.authority.objects import Objects

PLACES = ("begin_artifact.after_commit", "artifact.stored", "flip_artifact.before_commit", "flip_artifact.mid_commit")


@pytest.mark.parametrize("action", ["kill", "stop"])
def test_whatever_is_visible_is_there(world: World, action: str) -> None:
    """Each task ends as without faults, each available version has its content, and no number is missing."""
    victim = world.stack.service("worker-3")
    lane = OutcomeLane(world, victim, [world.stack.service("worker-1")], [Shot(place, action) for place in PLACES])
    lane.run()
    assert [shot.name for shot in lane.fired] == list(PLACES)
    lane.verify()
    objects = Objects(world.stack.objects_url)
    versions = world.sql("SELECT tenant_id, sha256, size FROM stanchion.artifact_version WHERE state = 'available'")
    assert len(versions) > 20
    for tenant_id, sha256, size in versions:
        assert objects.of(tenant_id).stat(sha256) == size
    objects.close()
