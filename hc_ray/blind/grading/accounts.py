"""``/etc/passwd`` and ``/etc/group``: packages may add accounts, but existing identities must not change. Pure."""

import re

_NUMBER = re.compile(r"[1-9][0-9]{0,9}")
"""Of somebody who is not root."""
_NOBODY = (1 << 32) - 1
"""The first invalid id; some C libraries truncate larger ones to 32 bits."""


def accounts_agree(path: str, before: str, after: str | None) -> bool:
    """Whether accounts were only added (groups may get members): existing identities are unchanged, and no new account
    shares one."""
    if after is None:
        return False
    width = 7 if path.endswith("passwd") else 4
    old, new = _accounts(before, width), _accounts(after, width)
    if old is None or new is None or list(new)[: len(old)] != list(old):
        return False
    if any(new[name][1:] != fields[1:] for name, fields in old.items()):
        return False
    added = {new[name][0] for name in list(new)[len(old) :]}
    known = {number for number, *_ in old.values()}
    return known.isdisjoint(added) and all(_NUMBER.fullmatch(one) and int(one) < _NOBODY for one in added)


def _accounts(text: str, width: int) -> dict[str, list[str]] | None:
    """Name → number, then what else decides who it is. None where a line is no account, or a name is there twice."""
    found: dict[str, list[str]] = {}
    for line in filter(None, text.split("\n")):  # what else ends lines for Python, the C library reads on over
        fields = line.split(":")
        if len(fields) != width or fields[0] in found or not re.match(r"[A-Za-z_]", fields[0]):
            return None
        found[fields[0]] = [fields[2], fields[2], *fields[3:4], *fields[5:]] if width == 7 else [fields[2], fields[2]]
    return found
