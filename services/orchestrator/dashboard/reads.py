"""All that pages read, over one set of connections of a login that can only read."""

from __future__ import annotations

from stanchion.authority.approvals import Approvals
from stanchion.authority.artifacts import Artifacts
from stanchion.authority.audit import Audit
from stanchion.authority.dead_letters import DeadLetters
from stanchion.authority.error_groups import ErrorGroups
from stanchion.authority.fan_outliers import FanOutliers
from stanchion.authority.fan_view import FanView
from stanchion.authority.graph_view import GraphView
from stanchion.authority.inventory import Inventory
from stanchion.authority.jobs import Jobs
from stanchion.authority.keys import Keys
from stanchion.authority.operations import Operations
from stanchion.authority.people import People
from stanchion.authority.pipeline import Pipeline
from stanchion.authority.pulse import Pulse
from stanchion.authority.queries import Queries
from stanchion.authority.queues import Queues
from stanchion.authority.saved_views import SavedViews
from stanchion.authority.task_search import Count, TaskSearch
from stanchion.authority.webhooks import Masters, Webhooks
from stanchion.authority.why import Asking
from stanchion.authority.workflows import Workflows
from stanchion.db.engine import Database

from .remembered import Remembered


class Reads:
    """The functions behind the API, under the dashboard's login."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.workflows = Workflows(database)
        self.queries = Queries(database)
        self.graph = GraphView(database, self.workflows)
        self.outliers = FanOutliers(database)
        self.fans = FanView(database)
        self.errors = ErrorGroups(database)
        self.jobs = Jobs(database)
        self.pipeline = Pipeline(database)
        self.views = SavedViews(database)
        self.counts: Remembered[dict[str, Count | None]] = Remembered(5.0, 200)
        self.queues = Queues(database)
        self.search = TaskSearch(database)
        self.asking = Asking(database)
        self.operations = Operations(database)
        self.approvals = Approvals(database)
        self.artifacts = Artifacts(database)
        self.inventory = Inventory(database)
        self.dead_letters = DeadLetters(database)
        self.audit = Audit(database)
        self.keys = Keys(database)
        self.people = People(database)
        self.webhooks = Webhooks(database, Masters.of((), "production"))
        self.pulse = Pulse(database)
