"""What names look like: which of them are one name in two spellings, surely or perhaps.

Who is under two names is on both sides of a split, and a model that knows somebody again looks as if it knew the answer.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from numbers import Number
from typing import Any, Literal

from orderless.io.per_set import text_of

Aside = Literal["capitals", "zeros", "dashes"]
# names that differ in nothing but these are one group; one sample they may be, or two
OF_ONE_GROUP: tuple[Aside, ...] = ("capitals", "zeros")
ANY: tuple[Aside, ...] = ("capitals", "zeros", "dashes")
LOOK_ALIKE = "characters that look alike or are not seen"
_WORDS: dict[Aside, str] = {"capitals": "capitals", "zeros": "leading zeros", "dashes": "dashes, underscores or spaces"}


def spelling(value: Any, *, aside: Collection[Aside] = ()) -> str:
    """What all spellings of a name have in common. Two names with the same one cannot be told apart by looking at them.

    How letters are encoded (é as one character or as two), other forms of them, characters that are not seen, spaces around or
    beside each other, and decimals of whole numbers never matter.

    Args:
        value: A name, as text or as a number.
        aside: What else is not to matter: `capitals`, `zeros` (001 and 1) or `dashes` (p-1, p_1 and p 1).
    """
    text = text_of(value)
    if not text.isascii():
        # without what is not seen first: it may stand between a letter and its accent
        text = unicodedata.normalize("NFKC", "".join(c for c in text if unicodedata.category(c) != "Cf"))
    if "capitals" in aside:
        text = unicodedata.normalize("NFKC", text.casefold())
    text = re.sub(r"^(-?\d+)\.0+$", r"\1", " ".join(text.split()))
    if "zeros" in aside:
        text = re.sub(r"(?<![\d.])0+(?=\d)", "", text)
    if "dashes" in aside:
        text = re.sub(r"[\s_]+", " ", "".join(" " if _is_dash(c) else c for c in text))
    return text


def find_alike(names: Iterable[Any], *, aside: Collection[Aside] = ()) -> list[list[Any]]:
    """Names that have one spelling in common, by spelling; each of them once, in order of appearance."""
    alike: dict[str, list[Any]] = {}
    for name in dict.fromkeys(names):
        alike.setdefault(spelling(name, aside=aside), []).append(name)
    return [found for found in alike.values() if len(found) > 1]


def describe_difference(one: Any, other: Any) -> str:
    """In what two spellings of a name differ, in words: `capitals and leading zeros`."""
    words = []
    for aspect, word in _WORDS.items():
        rest = [a for a in ANY if a != aspect]
        if spelling(one, aside=rest) != spelling(other, aside=rest):
            words.append(word)
    if words:
        return " and ".join(words)
    one, other = (" ".join(text_of(value).split()) for value in (one, other))
    if one == other:
        return "spaces"
    return "decimals" if one.isascii() and other.isascii() else LOOK_ALIKE


def check_groups(groups: Iterable[Any]) -> None:
    """That every group has one spelling: in two it would be on both sides of a split. Numbers have one in any case.

    Raises:
        ValueError: It shows two of them, and says in what they differ.
    """
    names = dict.fromkeys(groups)
    if all(isinstance(name, Number) for name in names) or not (alike := find_alike(names, aside=OF_ONE_GROUP)):
        return
    one, other = alike[0][:2]
    raise ValueError(
        f"groups must have one spelling each, but {' and '.join(show_apart([one, other]))} differ only by "
        f"{describe_difference(one, other)}. Write them alike, or number the groups if they are two."
    )


def show_apart(names: Sequence[Any]) -> list[str]:
    """Names in quotes, with codes for letters where they would look the same otherwise."""
    quoted = [repr(text_of(name)) for name in names]
    look_alike = len({unicodedata.normalize("NFKC", name) for name in quoted}) < len(set(quoted))
    return [ascii(text_of(name)) for name in names] if look_alike else quoted


def describe_alike(ids: Sequence[str], groups: Sequence[Any] | None = None) -> list[str]:
    """What may be one sample or one group under two names, in a sentence for each of the two; none where all names differ.

    Args:
        ids: N names of sets; none where sets have no names.
        groups: N groups, which are not trained on and tested on at once. Default: every set stands for itself.
    """
    said = []
    of = dict(zip(ids, ids if groups is None else groups, strict=False))
    sets = [found for found in find_alike(ids, aside=ANY) if len({of[name] for name in found}) > 1]
    if sets:
        said.append(_say_alike(sets, "samples", "write each in one spelling, or give groups that keep them together"))
    if groups is not None and (found := find_alike(groups, aside=ANY)):
        said.append(_say_alike(found, "groups", "write each in one spelling"))
    return said


def _say_alike(alike: Sequence[Sequence[Any]], kind: str, fix: str) -> str:
    one, other = alike[0][:2]
    first, second = show_apart([one, other])
    count = f"{len(alike):,} {kind if len(alike) > 1 else kind[:-1]}"
    return (
        f"{count} may be there under two names: {first} and {second} differ in {describe_difference(one, other)} alone"
        f"{', and others likewise' * (len(alike) > 1)}. If that is so, models are tested on what they have learnt, and figures "
        f"are too good: {fix}."
    )


def _is_dash(character: str) -> bool:
    return unicodedata.category(character) == "Pd" or character == "\N{MINUS SIGN}"
