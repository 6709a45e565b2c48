"""The tree of commands. Nothing in it is imported before it is run: `stanchion --help` must not wait for a database
driver."""

from __future__ import annotations

from typing import Final

from stanchion.cli.command import Branch, Leaf

TREE: Final = Branch(
    "Long tasks made of steps, on workers that may die.",
    {
        "dev": Leaf("stanchion.cli.dev:dev", "run everything on this machine, under one supervisor"),
        "task": Branch(
            "tasks",
            {
                "submit": Leaf("stanchion.cli.task_submit:submit", "submit a task"),
                "list": Leaf("stanchion.cli.task_read:list_tasks", "list tasks"),
                "show": Leaf("stanchion.cli.task_read:show", "show a task with its steps and joins"),
                "watch": Leaf("stanchion.cli.task_watch:watch", "follow a task until it ends; Ctrl-C detaches"),
                "wait": Leaf("stanchion.cli.task_watch:wait", "wait for tasks; the exit code says how they ended"),
                "result": Leaf("stanchion.cli.task_read:result", "print the result of a task"),
                "why": Leaf("stanchion.cli.why:why", "say why something does not move"),
                "cancel": Leaf("stanchion.cli.task_steer:cancel", "cancel tasks"),
                "pause": Leaf("stanchion.cli.task_steer:pause", "start nothing new of a task"),
                "resume": Leaf("stanchion.cli.task_steer:resume", "go on with a paused task"),
                "retry": Leaf("stanchion.cli.task_steer:retry", "run a failed, cancelled or rejected task again"),
                "reopen": Leaf("stanchion.cli.task_steer:reopen", "give failed steps of a live run another try"),
                "open-barrier": Leaf("stanchion.cli.task_steer:open_barrier", "open a join without what it waits for"),
                "steps": Leaf("stanchion.cli.task_read:steps", "list the steps of a task"),
            },
        ),
        "artifact": Branch(
            "artifacts",
            {
                "list": Leaf("stanchion.cli.artifact:list_versions", "list the versions of a task's artifacts"),
                "get": Leaf("stanchion.cli.artifact:get", "download a version, or show it"),
                "put": Leaf("stanchion.cli.artifact:put", "upload a file as a new version"),
                "pin": Leaf("stanchion.cli.artifact:pin", "keep a version, or let it go"),
                "verify": Leaf("stanchion.cli.artifact:verify", "check that stored content is what it should be"),
                "rm": Leaf("stanchion.cli.artifact:rm", "delete versions"),
            },
        ),
        "step": Branch("steps", {"show": Leaf("stanchion.cli.step:show", "show a step with its attempts")}),
        "why": Leaf("stanchion.cli.why:why", "say why something does not move, for any id"),
        "op": Branch(
            "effects outside",
            {
                "list": Leaf("stanchion.cli.op:list_operations", "list operations"),
                "show": Leaf("stanchion.cli.op:show", "show one with all that is known of it"),
                "reconcile": Leaf("stanchion.cli.op:reconcile", "have the outside system asked now"),
                "mark-done": Leaf("stanchion.cli.op:mark_done", "say that one of unknown fate was done"),
                "mark-not-done": Leaf("stanchion.cli.op:mark_not_done", "say that one of unknown fate was not done"),
                "compensate": Leaf("stanchion.cli.op:compensate", "have an effect undone"),
            },
        ),
        "approval": Branch(
            "approvals",
            {
                "list": Leaf("stanchion.cli.approval:list_approvals", "list approvals, or what waits for you"),
                "show": Leaf("stanchion.cli.approval:show", "show what is asked, and what was said"),
                "approve": Leaf("stanchion.cli.approval:approve", "approve what is shown"),
                "reject": Leaf("stanchion.cli.approval:reject", "say no"),
                "edit": Leaf("stanchion.cli.approval:edit", "change what is asked: that is decided by itself"),
                "ask-back": Leaf("stanchion.cli.approval:ask_back", "say what you want to know first"),
                "answer": Leaf("stanchion.cli.approval:answer", "answer what somebody wants to know"),
                "delegate": Leaf("stanchion.cli.approval:delegate", "pass your vote on"),
                "revoke": Leaf("stanchion.cli.approval:revoke", "take an approval back"),
            },
        ),
        "worker": Branch(
            "workers",
            {
                "run": Leaf("stanchion.cli.worker:run", "run a worker for workflows of yours"),
                "list": Leaf("stanchion.cli.worker:list_workers", "list the workers that were seen"),
                "drain": Leaf("stanchion.cli.worker:drain", "let a worker finish what it has, and end"),
            },
        ),
        "queue": Branch(
            "queues",
            {
                "list": Leaf("stanchion.cli.queue:list_queues", "list queues with what waits and who serves them"),
                "show": Leaf("stanchion.cli.queue:show", "show one"),
                "pause": Leaf("stanchion.cli.queue:pause", "start nothing new of a queue"),
                "resume": Leaf("stanchion.cli.queue:resume", "let a paused queue go on"),
            },
        ),
        "outbox": Branch(
            "messages on their way out",
            {
                "status": Leaf("stanchion.cli.outbox:status", "show what waits to be published, and who publishes"),
                "republish": Leaf("stanchion.cli.outbox:republish", "offer the ready steps of a task again"),
            },
        ),
        "lag": Leaf("stanchion.cli.lag:lag", "show how far readers of Kafka are"),
        "top": Leaf("stanchion.cli.top:top", "show how things stand, live"),
        "open": Leaf("stanchion.cli.open_page:open_page", "open the page of a thing in the browser"),
        "workflow": Branch(
            "workflows",
            {
                "list": Leaf("stanchion.cli.workflow:list_workflows", "list the registered workflows"),
                "show": Leaf("stanchion.cli.workflow:show", "show the graph of one"),
                "check": Leaf("stanchion.cli.workflow:check", "check workflows without running them"),
            },
        ),
        "dead": Branch(
            "dead letters",
            {
                "list": Leaf("stanchion.cli.dead:list_letters", "list messages that were parked"),
                "show": Leaf("stanchion.cli.dead:show", "show one with its reason and bytes"),
                "redrive": Leaf("stanchion.cli.dead:redrive", "send parked messages again"),
            },
        ),
        "job": Branch(
            "jobs in bulk",
            {
                "list": Leaf("stanchion.cli.job:list_jobs", "list jobs and how far they are"),
                "show": Leaf("stanchion.cli.job:show", "show one with what it skipped"),
                "start": Leaf("stanchion.cli.job:start", "do one act to all tasks that fit a filter"),
                "watch": Leaf("stanchion.cli.job:watch", "follow one until it ends"),
                "stop": Leaf("stanchion.cli.job:stop", "stop one"),
            },
        ),
        "error": Branch(
            "errors in groups",
            {
                "list": Leaf("stanchion.cli.error:list_errors", "list failures that are the same as one"),
                "show": Leaf("stanchion.cli.error:show", "show a group with an example and its steps"),
                "mark": Leaf("stanchion.cli.error:mark", "say what is known of a group"),
            },
        ),
        "view": Branch(
            "saved views",
            {
                "list": Leaf("stanchion.cli.view:list_views", "list views of the task list"),
                "save": Leaf("stanchion.cli.view:save", "keep a filter under a name"),
                "rm": Leaf("stanchion.cli.view:remove", "remove one"),
            },
        ),
        "key": Branch(
            "API keys",
            {
                "create": Leaf("stanchion.cli.key:create", "make a key"),
                "list": Leaf("stanchion.cli.key:list_keys", "list keys, without their secrets"),
                "revoke": Leaf("stanchion.cli.key:revoke", "end a key"),
            },
        ),
        "login": Leaf("stanchion.cli.login:login", "sign in to the stack on this machine, without a password"),
        "logout": Leaf("stanchion.cli.login:logout", "end that session"),
        "whoami": Leaf("stanchion.cli.login:whoami", "say as whom commands act, and with which rights"),
        "person": Branch(
            "people",
            {
                "list": Leaf("stanchion.cli.person:list_people", "list people with their roles and teams"),
                "role": Leaf("stanchion.cli.person:role", "give a person a role"),
                "disable": Leaf("stanchion.cli.person:disable", "keep a person out"),
                "enable": Leaf("stanchion.cli.person:enable", "let a person in again"),
            },
        ),
        "session": Branch(
            "sessions of people",
            {
                "list": Leaf("stanchion.cli.person:list_sessions", "list one's own, or everybody's"),
                "revoke": Leaf("stanchion.cli.person:revoke_session", "end one"),
            },
        ),
        "team": Branch(
            "teams of people",
            {
                "list": Leaf("stanchion.cli.team:list_teams", "list teams with their members"),
                "add": Leaf("stanchion.cli.team:add", "put a person into a team"),
                "remove": Leaf("stanchion.cli.team:remove", "take a person out of a team"),
            },
        ),
        "audit": Branch(
            "the audit log",
            {
                "list": Leaf("stanchion.cli.audit:list_audit", "list what people and keys did"),
                "verify": Leaf("stanchion.cli.audit:verify", "check that no entry was changed or removed"),
            },
        ),
        "webhook": Branch(
            "webhooks",
            {
                "list": Leaf("stanchion.cli.webhook:list_webhooks", "list whom we call when something happens"),
                "add": Leaf("stanchion.cli.webhook:add", "call an address when something happens"),
                "remove": Leaf("stanchion.cli.webhook:remove", "remove one"),
                "pause": Leaf("stanchion.cli.webhook:pause", "hold its calls"),
                "resume": Leaf("stanchion.cli.webhook:resume", "let its calls go again, also after it failed"),
                "deliveries": Leaf("stanchion.cli.webhook:deliveries", "list calls and what became of them"),
                "resend": Leaf("stanchion.cli.webhook:resend", "make calls again"),
            },
        ),
        "db": Branch(
            "the database",
            {
                "migrate": Leaf("stanchion.cli.db:migrate", "bring the schema to this release"),
                "status": Leaf("stanchion.cli.db:status", "say where the schema stands"),
                "check": Leaf("stanchion.cli.db:check", "compare the stored state with the events"),
                "rebuild": Leaf("stanchion.cli.db:rebuild", "derive the stored state from the events again"),
            },
        ),
        "serve": Leaf("stanchion.cli.serve:serve", "run one service in the foreground"),
        "doctor": Leaf("stanchion.cli.doctor:doctor", "check servers, rights, clocks and versions"),
        "config": Branch(
            "settings", {"view": Leaf("stanchion.cli.config:view", "show what holds, and where it is from")}
        ),
        "completion": Leaf("stanchion.cli.completion:completion", "print the completion script of a shell"),
        "version": Leaf("stanchion.cli.version:version", "print versions"),
    },
)
"""Noun, then verb."""
