"""What routes work with; made once by the composition root, found on the app."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from stanchion.authority.approvals import Approvals
from stanchion.authority.artifacts import Artifacts
from stanchion.authority.audit import Audit
from stanchion.authority.dead_letters import DeadLetters
from stanchion.authority.error_groups import ErrorGroups
from stanchion.authority.graph_view import GraphView
from stanchion.authority.inventory import Inventory
from stanchion.authority.jobs import Jobs
from stanchion.authority.keyring import KeyRing
from stanchion.authority.keys import Keys
from stanchion.authority.maintenance import Maintenance
from stanchion.authority.objects import Objects
from stanchion.authority.operations import Operations
from stanchion.authority.outcomes import Outcomes
from stanchion.authority.people import People
from stanchion.authority.pipeline import Pipeline
from stanchion.authority.queries import Queries
from stanchion.authority.queues import Queues
from stanchion.authority.samples import Samples
from stanchion.authority.saved_views import SavedViews
from stanchion.authority.task_search import TaskSearch
from stanchion.authority.webhooks import Webhooks
from stanchion.authority.why import Asking
from stanchion.db.engine import Database
from stanchion.runtime.outside import Rules

from .event_feed import EventFeed
from .handlers import Handlers
from .redriver import Redriver
from .sign_in import SignIn
from .transfers import Transfers


@dataclass(frozen=True, slots=True)
class Deps:
    """Typed calls of the database, under the task service's login, and the process's key ring."""

    database: Database
    handlers: Handlers
    queries: Queries
    search: TaskSearch
    jobs: Jobs
    saved_views: SavedViews
    errors: ErrorGroups
    graph_view: GraphView
    outcomes: Outcomes
    asking: Asking
    inventory: Inventory
    queues: Queues
    samples: Samples
    pipeline: Pipeline
    operations: Operations
    approvals: Approvals
    dead_letters: DeadLetters
    redriver: Redriver
    maintenance: Maintenance
    artifacts: Artifacts
    objects: Objects
    transfers: Transfers
    upload_bytes: int
    keys: Keys
    people: People
    sign_in: SignIn
    audit: Audit
    webhooks: Webhooks
    webhook_rules: Rules
    ring: KeyRing
    feed: EventFeed
    stream_heartbeat: float
    stream_seconds: float


async def deps_of(request: Request) -> Deps:
    """The app's."""
    found: Deps = request.app.state.deps
    return found


Has = Annotated[Deps, Depends(deps_of)]
