"""Actions on who gets in and who is called: keys, people and their teams, sessions, webhooks."""

from __future__ import annotations

from typing import Final

from . import ids
from .action_forms import POSITIONAL, Action, Field

ACCESS: Final = (
    Action(
        "key.create",
        "Make a key",
        "Whoever has the key may do what its rights say, in this tenant. Nobody gives more rights than they have.",
        "keys.manage",
        "/v1/keys",
        "stanchion key create {name}",
        fields=(
            Field("name", "Name", required=True, flag=POSITIONAL, hint="What it is for; it stands beside its acts."),
            Field("role", "Role", "choice", choices=("", "viewer", "operator", "approver", "admin")),
            Field(
                "scopes",
                "Rights",
                "list",
                flag="--scope",
                hint="Beside the role, or without one: task.submit, task.read",
            ),
            Field("expires_at", "Ends at", hint="Like 2027-06-30T00:00:00Z; empty: never."),
        ),
        shows="secret",
    ),
    Action(
        "key.revoke",
        "Revoke",
        "The key opens nothing any more, within seconds in every process.",
        "keys.manage",
        "/v1/keys/{id}/revoke",
        "stanchion key revoke {id}",
        ids.KEY,
        final=True,
    ),
    Action(
        "person.role",
        "Change role",
        "It holds from their next request on. What a sign-in provider says at their next sign-in goes before it.",
        "people.manage",
        "/v1/people/{id}/role",
        "stanchion person role {id} {role}",
        fields=(
            Field("role", "Role", "choice", True, flag=POSITIONAL, choices=("viewer", "operator", "approver", "admin")),
            Field("rights", "Rights beside it", "list", flag="--with", hint="payload.read, or nothing"),
        ),
    ),
    Action(
        "person.disable",
        "Disable",
        "Their sessions end at once, and they can't sign in. Keys that they made go on.",
        "people.manage",
        "/v1/people/{id}/disable",
        "stanchion person disable {id}",
    ),
    Action(
        "person.enable",
        "Enable",
        "They may sign in again, with the role and the teams that they had.",
        "people.manage",
        "/v1/people/{id}/enable",
        "stanchion person enable {id}",
    ),
    Action(
        "team.add",
        "Add to team",
        "From now on they are asked for what the team is asked for.",
        "people.manage",
        "/v1/teams/{id}/add",
        "stanchion team add {id} {name}",
        fields=(Field("name", "Person", required=True, flag=POSITIONAL, most=64),),
    ),
    Action(
        "team.remove",
        "Take out of team",
        "What the team is asked for waits for them no more; what they said stays.",
        "people.manage",
        "/v1/teams/{id}/remove",
        "stanchion team remove {id} {name}",
        fields=(Field("name", "Person", required=True, flag=POSITIONAL, most=64),),
    ),
    Action(
        "session.revoke",
        "End session",
        "Whoever uses it has to sign in again.",
        "",
        "/v1/sessions/{id}/revoke",
        "stanchion session revoke {id}",
        ids.SESSION,
    ),
    Action(
        "webhook.add",
        "Add a webhook",
        "The address is called when something happens, signed with a secret that is shown once.",
        "webhook.manage",
        "/v1/webhooks",
        "stanchion webhook add {url}",
        fields=(
            Field("url", "Address", required=True, flag=POSITIONAL, hint="https://…", most=2_000),
            Field(
                "events", "Events", "list", True, flag="--event", hint="task.failed, approval.requested, or * for all"
            ),
        ),
        shows="secret",
    ),
    Action(
        "webhook.pause",
        "Pause",
        "Its calls are held; what is held for three days is given up.",
        "webhook.manage",
        "/v1/webhooks/{id}/pause",
        "stanchion webhook pause {id}",
        ids.WEBHOOK,
    ),
    Action(
        "webhook.resume",
        "Resume",
        "What was held is called, also after the webhook has failed.",
        "webhook.manage",
        "/v1/webhooks/{id}/resume",
        "stanchion webhook resume {id}",
        ids.WEBHOOK,
    ),
    Action(
        "webhook.remove",
        "Remove",
        "The webhook goes, with the calls that still wait for it.",
        "webhook.manage",
        "/v1/webhooks/{id}/remove",
        "stanchion webhook remove {id}",
        ids.WEBHOOK,
        final=True,
    ),
    Action(
        "webhook.resend",
        "Send again",
        "The call is made again, whatever became of it; its event keeps its id.",
        "webhook.manage",
        "/v1/webhook-deliveries/{id}/resend",
        "stanchion webhook resend {id}",
        ids.DELIVERY,
    ),
)
