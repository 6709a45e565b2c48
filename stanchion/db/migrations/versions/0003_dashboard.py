"""What the dashboard lists, counts and does."""

from pathlib import Path

from alembic import op

revision = "0003"
down_revision = "0002"

SCRIPTS = (".sql", ".jobs.sql", ".samples.sql", ".rules.sql")
"""Tables and indexes, and behind them what has no rows."""


def upgrade() -> None:
    """Run the scripts that were frozen with this migration."""
    driver = op.get_bind().connection.driver_connection
    assert driver is not None
    for script in SCRIPTS:
        # straight to the driver: the scripts have % and : of their own
        driver.execute(Path(__file__).with_suffix(script).read_text())
