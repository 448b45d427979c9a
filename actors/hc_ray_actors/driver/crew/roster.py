"""The posts of a sweep: which are ready for which kind of work, and waiting while none is."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from hc_ray.domain.events import Event, PostState
from hc_ray_actors.attempts import Fault
from hc_ray_actors.cluster import Cluster
from hc_ray_actors.driver.crew.posts import Post


class Broken(Exception):
    """Something that every trial needs is gone. Committed results stay; a resume does the rest."""


class Roster:
    """All posts, in order of creation."""

    def __init__(
        self,
        cluster: Cluster,
        emit: Callable[[Event], None],
        changed: Callable[[], None],
        *,
        patience: float,
        near: bool,
    ) -> None:
        """``changed`` is called whenever a post changes its state, becomes doubtful, or ceases to be. ``patience``: the
        longest outage in seconds. ``near``: there is only one machine, and none will join."""
        self.kill, self._emit, self._on_change = cluster.kill, emit, changed
        self._patience, self._near = patience, near
        self.posts: list[Post] = []
        self.names: dict[str, str] = {}
        """Node → host name, including nodes that have left."""
        self.draining: set[str] = set()
        """Nodes that will leave soon."""
        self._change = asyncio.Event()
        self._lacking_since: dict[str, float] = {}
        self._broken: Broken | None = None
        self._opened = False
        self._last: dict[Post, PostState] = {}
        """Post → its last reported state."""
        self._background: set[asyncio.Future[Any]] = set()

    def of(self, *kinds: str) -> list[Post]:
        return [post for post in self.posts if post.kind in kinds]

    def ready(self, *kinds: str) -> list[Post]:
        return [post for post in self.of(*kinds) if post.state == "ready"]

    def by_node(self, *kinds: str) -> dict[str, Any]:
        """Node → its ready actor; of several kinds, the last."""
        return {post.node: post.actor for kind in kinds for post in self.ready(kind) if post.node}

    def sound(self, kind: str) -> list[Post]:
        """The posts of a kind to give new work: ready, not in doubt, on a node that stays; or else all ready ones."""
        ready = self.ready(kind)
        return [post for post in ready if post.looked_at is None and not self.leaves(post)] or ready

    def leaves(self, post: Post) -> bool:
        return post.node in self.draining

    def nobody(self, kind: str) -> str:
        """Why no post of a kind is ready, for display."""
        posts = [post for post in self.of(kind) if post.why]
        if len(posts) == 1:
            on = "" if self._near or posts[0].node is None else f"{self.name(posts[0].node)}: "
            return on + posts[0].why
        told: dict[str, dict[str, None]] = {}
        for post in posts:
            told.setdefault(post.why, {})[self.name(post.node)] = None
        each = "; ".join(f"{', '.join(nodes)}: {why}" for why, nodes in told.items())
        return f"no node can do the work of {kind} any more: {each}"

    def name(self, node: str | None) -> str:
        return self.names.get(node or "", str(node))

    def open(self) -> None:
        """Report the posts' current states, and from now on every change."""
        self._opened = True
        for post in sorted(self.posts, key=lambda post: post.name):  # the order of start-up means nothing
            self._tell(post)

    def told(self, post: Post) -> None:
        """Handle a change of a post."""
        if self._opened:
            self._tell(post)
        self.changed()

    def changed(self) -> None:
        """Wake all waiters: a post came, went, or can do more."""
        self._change.set()
        self._on_change()

    def _tell(self, post: Post) -> None:
        node = self.name(post.node) if post.node else ""
        again = [one for one in self.of(post.kind) if one.state != "gone" and self.name(one.node) == node]
        if post.state == "gone" and again:  # its machine has come back under the same name; report the new post
            self._last.pop(post := again[-1], None)
        told = PostState(
            kind=post.kind, node=node, number=post.number, state=post.state, slots=int(post.units), why=post.why
        )
        if self._last.get(post) != told:
            self._last[post] = told
            self._emit(told)

    def begin(self, work: Awaitable[Any]) -> "asyncio.Future[Any]":
        """Run ``work`` in the background; its failures are ignored."""
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task

    async def close(self) -> None:
        """Cancel all background work."""
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)

    def look(self, fault: Fault) -> None:
        """Begin to check the post that a fault names, or else all; ``mended`` waits for as much of it as necessary."""
        if self._broken is not None:
            return
        named = [post for post in self.posts if post.name == fault.where]
        looks = [post.check() for post in named or self.posts]

        async def struck() -> None:
            await asyncio.gather(*looks)
            for post in named:
                post.strike(fault.text)

        self.begin(struck())

    async def mended(self, *kinds: str) -> None:
        """Wait until every kind of work, or each of ``kinds``, has a ready post: nothing starts during an outage.
        Raises ``Broken`` if an outage lasts too long: no trial could succeed, so the sweep stops instead of marking
        them all unscored."""
        while doubtful := self._in_doubt():
            await asyncio.wait(doubtful, return_when=asyncio.FIRST_COMPLETED)
        while self._broken is None and (lacking := self._lacking(kinds)):
            since = self._lacking_since.setdefault(lacking, time.monotonic())
            left = since + self._patience - time.monotonic()
            lost = self._near and all(post.state == "spent" for post in self.of(lacking))
            if lost or left <= 0:
                self._broken = Broken(self.nobody(lacking) + ("" if lost else f" (waited {self._patience:g} s)"))
                break
            self._change.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._change.wait()
        if self._broken is not None:
            raise Broken(str(self._broken))
        self._lacking_since.clear()

    def _in_doubt(self) -> "list[asyncio.Future[None]]":
        """The running checks of kinds whose ready posts are all being checked."""
        for kind in dict.fromkeys(post.kind for post in self.posts):
            looks = [post.looked_at for post in self.ready(kind)]
            if looks and all(looks):
                return [look for look in looks if look is not None]
        return []

    def _lacking(self, kinds: Sequence[str]) -> str | None:
        """A kind of post, of ``kinds`` or of all, that has no ready post."""
        known = dict.fromkeys(post.kind for post in self.posts if post.state != "starting")
        return next((kind for kind in kinds or known if not self.ready(kind)), None)
