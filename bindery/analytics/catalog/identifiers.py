"""What queues and columns are called in catalogs whose names are lower-case letters, digits and underscores.

A name of lower-case words (letters and digits, the first begins with a letter) between single underscores stays as it
is; a dot between words becomes two underscores, a hyphen three. Every other name becomes what is left of it in lower
case, four underscores and 16 hexadecimal digits of its SHA-256. So an identifier belongs to one name, whichever others
there are: declaring a queue never changes what another one is called. Hive, Glue and Unity Catalog all take these.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from bindery.router.error_text import visible

#: Stands in front of what is not part of a name.
MARK: Final = "____"
_PLAIN: Final = re.compile(r"[a-z][a-z0-9]*(?:[._-][a-z0-9]+)*", re.ASCII)
#: Hive ends at 128 characters, and a table's own mark has to have room.
_LONGEST: Final = 100
_KEPT: Final = 40
_DIGITS: Final = 16
_ALL_DIGITS: Final = 64
_JOINTS: Final = str.maketrans({".": "__", "-": "___"})


def identifier(name: str, *, digits: int = _DIGITS) -> str:
    """What a name is called, 118 characters of [a-z0-9_] at most, a letter first.

    >>> identifier("late.majors"), identifier("orders-eu"), identifier("Late")
    ('late__majors', 'orders___eu', 'late____0f950da185fc88f4')
    """
    if _PLAIN.fullmatch(name):
        plain = name.translate(_JOINTS)
        if len(plain) <= _LONGEST:
            return plain
    kept = re.sub(r"[^a-z0-9]+", "_", name.lower(), flags=re.ASCII)[:_KEPT].strip("_")
    if not kept[:1].isalpha():
        kept = f"q_{kept}".rstrip("_")
    return f"{kept}{MARK}{hashlib.sha256(name.encode()).hexdigest()[:digits]}"


def identifiers(names: Iterable[str]) -> dict[str, str]:
    """What each of these is called. Names made to share 16 digits get all 64."""
    found = {name: identifier(name) for name in names}
    shared = Counter(found.values())
    return {name: one if shared[one] == 1 else identifier(name, digits=_ALL_DIGITS) for name, one in found.items()}


def sql_names(names: Iterable[str], taken: Iterable[str] = ()) -> dict[str, str]:
    """What each name is called in SQL that quotes any name, but tells none by its case.

    Of names that differ by case alone, and of those that are taken, each gets "~" and a number, so that none stands for
    another.
    """
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(name.casefold(), []).append(name)
    used = {*groups, *taken}
    found: dict[str, str] = {}
    for folded, group in groups.items():
        for name in group:
            called = name
            if len(group) > 1 or folded in taken:
                called = next(one for n in range(1, len(used) + 2) if (one := f"{name}~{n}").casefold() not in used)
                used.add(called.casefold())
            found[name] = called
    return found


def printable_names(names: Sequence[str], taken: Iterable[str] = ()) -> dict[str, str]:
    """As `sql_names`, but names with control or format characters get an identifier: statements are shown to people."""
    odd = {name: identifier(name, digits=_ALL_DIGITS) for name in names if visible(name) != name}
    others = sql_names((name for name in names if name not in odd), {*taken, *odd.values()})
    return {name: odd.get(name) or others[name] for name in names}


def column_names(names: Sequence[str]) -> list[str]:
    """What columns are called whose names differ by more than case: identifiers of their lower-case names."""
    called = identifiers(name.lower() for name in names)
    return [called[name.lower()] for name in names]
