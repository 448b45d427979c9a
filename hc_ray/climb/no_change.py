"""The incumbent again, under seeds of its own: what it wins, luck wins."""

from hc_ray.climb.proposals import Moment, Proposal, propose


def suggest(moment: Moment) -> Proposal:
    return propose(moment, "no change", None, None, "the incumbent again under seeds of its own")
