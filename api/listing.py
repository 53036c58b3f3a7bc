"""Lists as the broker gives them: `columns`, `sort`, `sort_reverse`, pages, and a name filter.

A list is paged only when `page` is given; then `name` filters, as a case-insensitive substring or, with
`use_regex`, as a regular expression of a linear-time engine. Items are JSON objects.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, cast

from fastapi import Depends, Query

from bindery.api.errors import Refusal, bad_request
from bindery.router.errors import InvalidInput
from bindery.router.regex import Regex

Item = dict[str, Any]

DEFAULT_PAGE_SIZE: Final = 100
MAX_PAGE_SIZE: Final = 500
_TRUE: Final = frozenset({"true"})
#: How JSON types order among each other (the broker orders terms of Erlang); a missing field comes first.
_RANKS: Final[tuple[tuple[type | tuple[type, ...], int], ...]] = (
    (type(None), 2),
    (bool, 2),
    ((int, float), 1),
    (dict, 3),
    (list, 4),
    (str, 5),
)


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a list: number from 1, size, and the filter on names."""

    number: int
    size: int
    name: str
    is_regex: bool


@dataclass(frozen=True, slots=True)
class Costly:
    """Fields that are worth looking up only for items that are shown; `look_up` sets them in place.

    Statistics are left out where a client asks for none (`disable_stats`).
    """

    fields: frozenset[str]
    look_up: Callable[[list[Item]], None]
    are_statistics: bool = True


@dataclass(frozen=True, slots=True)
class Listing:
    """How a client wants a list: columns (None: all), order, page (None: the whole list)."""

    columns: tuple[tuple[str, ...], ...] | None
    sort: tuple[str, ...] | None
    reverse: bool
    page: Page | None
    stats: bool = True

    def wants(self, fields: Collection[str], *, are_statistics: bool = True) -> bool:
        """Whether one of the fields is asked for, or needed for the order."""
        if self.sort is not None and self.sort[0] in fields:
            return True
        if self.columns is None:
            return self.stats or not are_statistics
        return any(column[0] in fields for column in self.columns)

    def whole(
        self,
        items: Iterable[Mapping[str, Any]],
        *,
        order: Sequence[str] = ("vhost", "name"),
        costly: Sequence[Costly] = (),
    ) -> list[Item]:
        """The list sorted and cut to its columns, for resources that the broker never pages."""
        found = self._sorted(self._ready_to_sort(items, costly), order)
        self._complete(found, [one for one in costly if not self._orders_by(one)])
        return [self.cut(item) for item in found]

    def paged(
        self,
        items: Iterable[Mapping[str, Any]],
        *,
        order: Sequence[str] = ("vhost", "name"),
        costly: Sequence[Costly] = (),
    ) -> list[Item] | Item:
        """The list, or the page of it that was asked for; raises Refusal for a page out of range.

        Costly fields are looked up for the items that are shown only, unless the list is sorted by one.
        """
        page = self.page
        if page is None:
            return self.whole(items, order=order, costly=costly)
        everything = self._ready_to_sort(items, costly)
        found = self._sorted(_named(everything, page), order)
        start = (page.number - 1) * page.size
        if start >= len(found) and page.number > 1:
            raise Refusal(
                400,
                "page_out_of_range",
                f"Page out of range, page: {page.number} page size: {page.size}, len: {len(found)}",
            )
        shown = found[start : start + page.size]
        self._complete(shown, [one for one in costly if not self._orders_by(one)])
        return {
            "total_count": len(everything),
            "filtered_count": len(found),
            "item_count": len(shown),
            "page": page.number,
            "page_size": page.size,
            "page_count": -(-len(found) // page.size),
            "items": [self.cut(item) for item in shown],
        }

    def one(self, item: Mapping[str, Any], *, costly: Sequence[Costly] = ()) -> Item:
        """A single object, cut to its columns."""
        found = cast(Item, item)
        self._complete([found], costly)
        return self.cut(found)

    def _ready_to_sort(self, items: Iterable[Mapping[str, Any]], costly: Sequence[Costly]) -> list[Item]:
        found = cast(list[Item], list(items))  # JSON objects, whatever their type says of their fields
        for one in costly:
            if self._orders_by(one):
                one.look_up(found)
        return found

    def _orders_by(self, costly: Costly) -> bool:
        return self.sort is not None and self.sort[0] in costly.fields

    def _complete(self, items: list[Item], costly: Sequence[Costly]) -> None:
        for one in costly:
            if self.wants(one.fields, are_statistics=one.are_statistics):
                one.look_up(items)

    def cut(self, item: Item) -> Item:
        """The item with the columns that were asked for; unknown columns are dropped."""
        if self.columns is None:
            return item
        out: Item = {}
        for column in self.columns:
            _copy(item, column, out)
        return out

    def _sorted(self, items: Iterable[Item], order: Sequence[str]) -> list[Item]:
        """In the order that was asked for, and then in that of `order`: fields that hold text, where they are there."""
        sort = self.sort

        def text(item: Item) -> list[str]:
            return [item.get(name, "") for name in order]

        def key(item: Item) -> Any:
            return text(item) if sort is None else (_rank(_field(item, sort)), text(item))

        return sorted(items, key=key, reverse=self.reverse)


_MISSING: Final = object()


def _field(item: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        if not isinstance(item, Mapping) or name not in item:
            return _MISSING
        item = item[name]
    return item


def _rank(value: Any) -> tuple[int, Any]:
    if value is _MISSING:
        return (0, "")
    rank = next(rank for kinds, rank in _RANKS if isinstance(value, kinds))
    if rank == 2:
        return (rank, str(value).lower())
    return (rank, value if rank in (1, 5) else str(value))


def _copy(item: Mapping[str, Any], path: tuple[str, ...], out: Item) -> None:
    name, *rest = path
    if name not in item:
        return
    if not rest:
        out[name] = item[name]
    elif isinstance(item[name], Mapping):
        inner = out.setdefault(name, {})
        if isinstance(inner, dict):
            _copy(item[name], tuple(rest), inner)


def _named(items: list[Item], page: Page) -> Iterable[Item]:
    if not page.name:
        return items
    if page.is_regex:
        pattern = _pattern(page.name)
        return (item for item in items if pattern.found_in(item["name"]))
    wanted = page.name.lower()
    return (item for item in items if wanted in item["name"].lower())


def _pattern(text: str) -> Regex:
    try:
        return Regex(text, ignore_case=True)
    except InvalidInput:
        raise bad_request("Pagination parameters are invalid") from None


def _positive(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.removeprefix("-").isdigit() and len(text) < 12):
        raise bad_request("Pagination parameters are invalid")
    return int(text)


def _page(page: str | None, page_size: str | None, name: str, use_regex: str) -> Page | None:
    number, size = _positive(page), _positive(page_size)
    if number is None:
        return None
    if number < 1 or (size is not None and not 1 <= size <= MAX_PAGE_SIZE):
        shown = "undefined" if size is None else size
        raise Refusal(
            400,
            "invalid_pagination_parameters",
            f"Invalid pagination parameters: page number {number}, page size {shown}",
        )
    found = Page(number, size or DEFAULT_PAGE_SIZE, name, use_regex in _TRUE)
    if found.is_regex and name:
        _pattern(name)
    return found


def _columns(columns: str | None) -> tuple[tuple[str, ...], ...] | None:
    names = [name for name in (columns or "").split(",") if name]
    return tuple(tuple(name.split(".")) for name in names) or None


def read_listing(  # each parameter is one query parameter of the broker's
    columns: Annotated[
        str | None, Query(description="fields to give, dotted into nested ones", examples=["name,arguments.x"])
    ] = None,
    sort: Annotated[str | None, Query(description="field to sort by; a missing one sorts first")] = None,
    sort_reverse: Annotated[str, Query(description='"true" for descending order')] = "false",
    page: Annotated[str | None, Query(description="page from 1; without it the whole list is given")] = None,
    page_size: Annotated[str | None, Query(description=f"items a page, at most {MAX_PAGE_SIZE}")] = None,
    name_filter: Annotated[
        str, Query(alias="name", description="only items whose name contains this text; needs `page`")
    ] = "",
    use_regex: Annotated[str, Query(description='"true" to read `name` as a regular expression')] = "false",
    disable_stats: Annotated[str, Query(description='"true" leaves counts out')] = "false",
) -> Listing:
    """The listing parameters of a request; raises Refusal for numbers and expressions that are none."""
    return Listing(
        columns=_columns(columns),
        sort=tuple(sort.split(".")) if sort else None,
        reverse=sort_reverse in _TRUE,
        page=_page(page, page_size, name_filter, use_regex),
        stats=disable_stats not in _TRUE,
    )


ListingParameters = Annotated[Listing, Depends(read_listing)]
