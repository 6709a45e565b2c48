"""The engine: tasks, runs, steps, leases, barriers, events, outbox."""

from pathlib import Path

from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Run the script that was frozen with this migration."""
    script = Path(__file__).with_suffix(".sql").read_text()
    # straight to the driver: the script has % and : of its own
    driver = op.get_bind().connection.driver_connection
    assert driver is not None
    driver.execute(script)
