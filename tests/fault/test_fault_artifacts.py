"""Workers killed and frozen between row, content and flip: what is visible is whole, and nothing else is."""

from __future__ import annotations

import pytest
from fault_lanes import FROZEN_SECONDS, OutcomeLane, Shot
from kit.world import PATIENCE, World, let_pass, until

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
    whole(world, 20)


def test_the_database_crashes_between_content_and_flip(world: World) -> None:
    """A worker stands there meanwhile, for longer than its lease: what it comes back with is refused, or still its own."""
    victim = world.stack.service("worker-3")
    lane = OutcomeLane(world, victim, [world.stack.service("worker-1")], [Shot("artifact.stored", "stop")])
    with lane.still():
        world.stack.servers.postgres.kill()
        until(lambda: world.sql("SELECT 1"), PATIENCE, "the database")
        let_pass(FROZEN_SECONDS)
    lane.verify()
    whole(world, 1)


def whole(world: World, least: int) -> None:
    """Each available version has its content, and there are more than `least`."""
    objects = Objects(world.stack.objects_url)
    versions = world.sql("SELECT tenant_id, sha256, size FROM stanchion.artifact_version WHERE state = 'available'")
    assert len(versions) > least
    for tenant_id, sha256, size in versions:
        assert objects.of(tenant_id).stat(sha256) == size
    objects.close()
