"""Whom a command runs as: a user that an image or a task names, as Docker looks one up for ``exec --user``. The files
are read, and the C library is not asked: it would load what the image, or a candidate in it, names in nsswitch.conf."""

from __future__ import annotations

import os


class Account:
    """A user of an image, by the numbers that files and processes bear."""

    def __init__(self, uid: int, gid: int, groups: list[int], name: str = "", home: str = "/") -> None:
        """``groups``: supplementary ones."""
        self.uid, self.gid, self.groups = uid, gid, groups
        self.variables = {"HOME": home, "USER": name, "LOGNAME": name}

    def become(self) -> None:
        """For good; only root can."""
        os.setgroups(self.groups)
        os.setresgid(self.gid, self.gid, self.gid)
        os.setresuid(self.uid, self.uid, self.uid)


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
    return Account(int(uid), int(gid), [int(number) for number in more], name, home or "/")
