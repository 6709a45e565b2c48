"""Effects outside, artifacts, people, rights and webhooks."""

from pathlib import Path

from alembic import op

revision = "0002"
down_revision = "0001"

SCRIPTS = (".sql", ".rules.sql", ".audit.sql")
"""Tables, what has no rows, and the entries of the audit log, which need both."""


def upgrade() -> None:
    """Run the scripts that were frozen with this migration."""
    driver = op.get_bind().connection.driver_connection
    assert driver is not None
    for script in SCRIPTS:
        # straight to the driver: the scripts have % and : of their own
        driver.execute(Path(__file__).with_suffix(script).read_text())
