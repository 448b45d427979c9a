"""Asks the meta-reasoner for a climb."""

import asyncio
from typing import Any

from hc_ray.domain.config import EngineConfig
from hc_ray.domain.prompt import Completion, Prompt
from hc_ray.engines.speed import request_seconds
from hc_ray_actors.cluster import ENGINE, Cluster, wait_until_free
from hc_ray_actors.driver.crew.distribution import furnish
from hc_ray_actors.driver.crew.posts import Post
from hc_ray_actors.driver.crew.roster import Roster
from hc_ray_actors.driver.plan import Plan
from hc_ray_actors.engine import Endpoint, open_model
from hc_ray_actors.engine_places import located, spawn_engine, takes_slot
from hc_ray_actors.role_models import role_model


async def answer(config: EngineConfig, plan: Plan, cluster: Cluster, prompt: Prompt) -> Completion:
    """Answer a prompt with an engine started for this one question: during a sweep it would take the others' memory and
    cores. Raises ``InfrastructureError`` or ``UserError``."""
    engine, profile, _ = role_model(config)
    # A reasoning model needs as much room as for its other answers.
    room = profile.longest_answer(max(prompt.max_tokens, profile.settings.get("solver.max_answer_tokens", 0)))
    prompt = prompt.model_copy(update={"max_tokens": room})
    free = cluster.free(ENGINE) if takes_slot(engine) else {}
    roster = Roster(cluster, lambda event: None, lambda: None, patience=0, near=True)
    endpoint: Endpoint | None = None

    def make(post: Post) -> Any:
        post.node, actor = spawn_engine(cluster, located(engine), known=plan.seen(engine, 0))
        return actor

    async def start(post: Post) -> None:
        nonlocal endpoint
        await furnish(cluster, post.actor, engine)
        endpoint = await post.actor.start()

    post = Post(roster, "meta", f"the engine {engine.label}", make, start)
    try:
        await post.open()
        assert endpoint is not None
        model = open_model(engine, endpoint, timeout=request_seconds(engine, profile.context_tokens))
        try:
            return await model.complete(prompt)
        finally:
            if close := getattr(model, "aclose", None):
                await close()
    finally:
        await post.dismiss()
        await roster.close()
        if post.node in free:
            await asyncio.to_thread(wait_until_free, cluster, {(ENGINE, post.node): free[post.node]})
