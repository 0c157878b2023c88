"""Users, who sign their requests with a secret.

RocketMQ: ``User.java``, ``UserType.java``, ``UserStatus.java``.
"""

from enum import StrEnum
from typing import Any

import msgspec


class UserType(StrEnum):
    """What a user may do: all (SUPER), or what its policies allow."""

    SUPER = "Super"
    NORMAL = "Normal"


class UserStatus(StrEnum):
    """Whether a user's requests are answered at all."""

    ENABLE = "enable"
    DISABLE = "disable"


class User(msgspec.Struct, frozen=True):
    """A user. The password is in no text of it.

    Attributes:
        password: the secret that signs requests, in clear: a signature cannot be checked without it.
    """

    name: str
    password: str
    type: UserType = UserType.NORMAL
    status: UserStatus = UserStatus.ENABLE

    @property
    def is_super(self) -> bool:
        """Whether the user may do all."""
        return self.type is UserType.SUPER

    @property
    def is_enabled(self) -> bool:
        """Whether the user's requests are answered."""
        return self.status is UserStatus.ENABLE

    def __repr__(self) -> str:
        return f"User({self.name!r}, ***, {self.type.value}, {self.status.value})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("name", self.name), ("type", self.type.value), ("status", self.status.value)]
