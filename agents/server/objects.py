"""Several objects that one server serves, each under a name of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from ...protocol.errors import ConfigError, MemberRefused
from ...protocol.values import first_reference


class Objects:
    """Several objects of one server, as members of what it serves."""

    def __init__(self, objects: Mapping[str, object]) -> None:
        self.__dict__.update(objects)

    def __setattr__(self, name: str, value: object) -> None:
        raise MemberRefused(f"{name!r} cannot be set: it is one of the objects of a server")


def objects_of(served: object) -> dict[str, object]:
    """The objects by name when several are served; empty for one.

    Raises:
        ConfigError: for names that are none, and for a class in the place of an object.
    """
    objects = cast("dict[object, object]", served) if type(served) is dict else {}
    for each in [*objects.values(), cast(object, served)]:
        if isinstance(each, type):
            name = each.__name__
            raise ConfigError(f"{name} is a class: serve an object of it, Server({name}(...), ...)")
    if not objects or any(first_reference(each) is None for each in objects.values()):
        return {}
    for name in objects:
        if not isinstance(name, str) or not name.isidentifier() or name.startswith("_"):
            raise ConfigError(f"{name!r} cannot be the name of a served object: use letters, digits and _")
    return cast("dict[str, object]", objects)
