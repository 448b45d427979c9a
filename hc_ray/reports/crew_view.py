"""Who works on a sweep and how busy they are, as its events tell: nodes with their slots, engines with theirs. Shown by
the live display and by ``status``."""

from hc_ray.domain.events import EngineUse, Event, PostState, SlotUse
from hc_ray.domain.value import Value

SLOTS = {"sandbox_slot": "sandboxes", "verifier_slot": "gradings"}


class NodeView(Value):
    """One node, for a reader."""

    node: str
    sandboxes: str
    """Slots in use on average over the last account, and how many there are; empty where it has none."""
    gradings: str
    engines: str
    """Replicas that are up."""
    note: str
    """What does not work there, and why."""


class CrewView:
    """Gathers the events."""

    def __init__(self) -> None:
        self._posts: dict[tuple[str, str, int], PostState] = {}
        self._slots: dict[tuple[str, str], SlotUse] = {}
        self._engines: dict[str, EngineUse] = {}

    def take(self, event: Event) -> None:
        if isinstance(event, PostState):
            where = event.node if event.kind in SLOTS else ""  # an engine's replica may move to another node
            self._posts[event.kind, where, event.number] = event
        elif isinstance(event, SlotUse):
            self._slots[event.kind, event.node] = event
        elif isinstance(event, EngineUse):
            self._engines[event.engine] = event

    @property
    def nodes(self) -> list[NodeView]:
        """Those that have or had something to do, by name."""
        found = sorted({post.node for post in self._posts.values() if post.node})
        return [self._node(node) for node in found]

    def _node(self, node: str) -> NodeView:
        posts = [post for post in self._posts.values() if post.node == node]
        ready = [post.kind for post in posts if post.state == "ready"]
        up = [kind.removeprefix("engine ") for kind in ready if kind.startswith("engine ")]
        counted = [f"{up.count(name)} × {name}" if up.count(name) > 1 else name for name in dict.fromkeys(up)]
        ill = dict.fromkeys(
            f"{SLOTS.get(post.kind, post.kind)} {post.state}: {post.why}" for post in posts if post.state != "ready"
        )
        return NodeView(
            node=node, engines=", ".join(counted), note="; ".join(ill),
            **{what: self._busy(kind, node) for kind, what in SLOTS.items()},
        )  # fmt: skip

    def _busy(self, kind: str, node: str) -> str:
        post = self._posts.get((kind, node, 0))
        if post is None or post.state != "ready":
            return ""
        use = self._slots.get((kind, node))
        busy = "?" if use is None or not use.seconds else f"{use.busy / use.seconds:.1f}"
        queued = f", {use.queued / use.seconds:.1f} queued" if use and use.seconds and use.queued > 0.05 else ""
        return f"{busy} of {post.slots}{queued}"

    @property
    def engines(self) -> list[str]:
        """One line for each engine's last account."""
        return [
            f"{name}: {use.busy / use.seconds:.1f} of {use.slots} slots busy, {use.queued / use.seconds:.1f} queued, "
            f"{use.completion_tokens / use.seconds:.0f} answer tokens/s"
            for name, use in sorted(self._engines.items())
            if use.seconds
        ]

    @property
    def tells(self) -> bool:
        """Whether there is more than one node, or something does not work."""
        return len({post.node for post in self._posts.values() if post.node}) > 1 or any(
            post.state != "ready" for post in self._posts.values()
        )
