"""Whom a task's commands run as: a user that an image or a task names, as Docker looks one up for ``exec --user``."""

from hc_ray.domain.value import Value


class Account(Value):
    """A user of an image, by the numbers that files and processes bear."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    """Supplementary groups."""
    variables: dict[str, str]
    """HOME, USER and LOGNAME."""


def account(named: str, passwd: str, group: str) -> Account | None:
    """``named``: ``USER[:GROUP]``, each a name or a number; ``passwd`` and ``group``: the texts of the image's files. A
    number that they lack is a user without a name, of group 0; None for a name that they lack."""
    users, groups = ([line.split(":") for line in text.splitlines() if line.count(":") > 2] for text in (passwd, group))
    wanted, _, wanted_group = named.partition(":")
    name, _, uid, gid, _, home, *_ = next(
        (user for user in users if wanted in (user[0], user[2]) and len(user) > 5), [wanted, "", wanted, "0", "", "/"]
    )
    more = [one[2] for one in groups if name in one[3].split(",")] if not wanted_group else []
    gid = next((one[2] for one in groups if wanted_group in (one[0], one[2])), wanted_group) or gid
    if not all(number.isdigit() for number in (uid, gid, *more)):
        return None
    variables = {"HOME": home or "/", "USER": name, "LOGNAME": name}
    return Account(uid=int(uid), gid=int(gid), groups=tuple(map(int, more)), variables=variables)
