"""Columns of sets, chosen by name or by what they look like: the target, groups, covariates.

Letters: N sets, K covariates.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from orderless.estimators.regressor import LARGEST_TARGET
from orderless.io.errors import OptionError
from orderless.io.missing import is_missing
from orderless.io.per_set import text_of
from orderless.io.samples import Varies, listed, visible
from orderless.io.spelling import ANY, OF_ONE_GROUP, Aside, describe_difference, find_alike, show_apart, spelling
from orderless.io.tables import find_code, is_number
from orderless.words import counted

Array = NDArray[Any]
Task = Literal["auto", "classification", "regression"]

# who sets may share: a column of such a name, also with id, no or the like behind it
_WHO = (
    "patient|donor|subject|participant|individual|person|volunteer|proband|animal|mouse|monkey|family|household"
    "|patienten|patientin|probanden|spender|donneur|sujet|pseudonym"
)
_NUMBERED = "id|ids|no|nr|num|number|nummer|numero|code|name|key|barcode"
# "case" alone is as often the opposite of a control, and "pat" or "record", which is REDCap's for a patient, may be anything
_NAME = rf"(?:{_WHO}|pid|ptid|u?subjid|mrn)s?(?:_?(?:{_NUMBERED}))?|(?:case|fall|pat|record)_?(?:{_NUMBERED})"
_EXACT_NAME = re.compile(_NAME)
_LONGER_NAME = re.compile(rf"(?:[a-z0-9]+_)+(?:{_NAME})")
# before "patient", these ask a question of a patient and do not say who it is; a number of patients is not that of a patient
_ASKS = re.compile(r"(?:is|has|had|was|are|not|non|any|new|old|healthy|ill|sick|same|first)_.*|(?:no|num|number|n)_.*s")
_ONE_IN = 10  # of the different values of a target, or of its sets, may be words where the others are numbers: they are slips
_MOST_GRADES = 10
# words that are amounts: they have an order that classes lack, and hardly one of them is there twice
_DATE = re.compile(r"\d{4}([-/.])\d{1,2}\1\d{1,2}([T ].*)?|\d{1,2}([-/.])\d{1,2}\3\d{2,4}( .*)?")
_WITH_UNIT = re.compile(r"[-+\u2212]?\d+(?:[.,]\d+)?\s*(\D*)")
_LIMIT = re.compile(r"\s*[<>\u2264\u2265]=?\s*[-+]?[\d.,]+\s*")  # of detection
_NAMED = 3  # slips in one message
_FEWEST_GROUPS = 3  # two values are a yes and a no


def check_column(columns: Mapping[str, Array], name: str, option: str, varying: Mapping[str, Varies] | None = None) -> Array:
    """A column of sets; an error lists those that are there, with the one that may be meant.

    Args:
        columns: (N,) each.
        name: The one that is asked for.
        option: Which asks for it.
        varying: Columns of the files that differ within sets, and so are none of sets.
    """
    if name in columns:
        return columns[name]
    if varying and name in varying:
        raise ValueError(
            f"{option} {name}: it is not known per set, because it differs within sets, first in {varying[name].where}. Correct "
            "the rows of these sets, or give --labels FILE with one value for each set."
        )
    close = difflib.get_close_matches(name.casefold(), {other.casefold(): other for other in columns}, n=1, cutoff=0.7)
    meant = [other for other in columns if close and other.casefold() == close[0]]
    known = f"Known per set: {listed(list(columns), 30)}." if columns else "Nothing is known per set: give --labels FILE."
    hint = f" Is it {meant[0]!r}?" if meant else ""
    if cut := [
        other for other in columns if option == "--covariates" and "," in other and name in other.replace(", ", ",").split(",")
    ]:
        hint = f" A name with a comma needs quotes of its own: --covariates '\"{visible(cut[0])}\"'."
    raise OptionError(f"{option} {visible(name)}: there is no such column of sets.{hint} {known}")


def known(column: Array) -> NDArray[np.bool_]:
    """(N,) where there is a value."""
    return np.array([not is_missing(value) for value in column.tolist()], dtype=bool)


def find_group(columns: Mapping[str, Array], *, but: Sequence[str]) -> tuple[str | None, str]:
    """The column that says which sets belong together, told by its name and by values that repeat; and why, in words.

    Names such as patient or donor_id go before longer ones such as study_donor. Of several the coarsest is taken: sets of a
    family are sets of its members, too. A column of two values is taken for an answer of yes or no.

    Args:
        columns: (N,) each, of the sets that are used.
        but: Columns that are something else: the target, the split.

    Raises:
        ValueError: If two columns look like groups and neither is constant within the other.
    """
    counts: dict[str, int] = {}
    all_different = []
    for name, column in columns.items():
        if name not in but and looks_like_a_group(name):
            found = [value for value in column.tolist() if not is_missing(value)]
            values = {_spelling(value) for value in found}
            # p-1 and p_1 may be one: then it is no column of single sets
            perhaps = {spelling(value, aside=ANY) for value in found}
            if 1 < len(perhaps) < len(found):
                counts[name] = len(values)
            elif 1 < len(values) == len(column):
                all_different.append(name)
    groups = [name for name, count in counts.items() if count >= _FEWEST_GROUPS]
    if not groups:
        if counts:
            name = next(iter(counts))
            why = f"none: {name} has two values only, which may be a yes and a no. If it says who is who, give --group {name}"
        elif all_different:
            name = all_different[0]
            why = f"none: {name} is another one in each of {len(columns[name])} sets, so every set stands for itself"
        else:
            why = ""
        return None, why
    exact = [name for name in groups if _EXACT_NAME.fullmatch(_plain(name))]
    asked = exact or groups
    chosen = min(asked, key=lambda name: counts[name])
    for other in asked:
        if not _is_constant_within(columns[chosen], columns[other]):
            raise OptionError(
                f"{chosen} ({counts[chosen]} values) and {other} ({counts[other]} values) both look like groups, and neither is "
                f"the same in all sets of the other. Say which keeps sets together, as in --group {other}, or --group none."
            )
    others = [name for name in groups if name != chosen]
    also = f"; {listed(others)} looks like one, too" if others else ""
    return chosen, f"found by its name: {counts[chosen]} values over {len(columns[chosen])} sets{also}"


def refuse_groups_as_covariates(columns: Mapping[str, Array], covariates: Sequence[str]) -> None:
    """Fails where a covariate identifies people: a model would recognise them, and its score say nothing of new ones."""
    for name in covariates:
        people = {_spelling(value) for value in columns[name].tolist() if not is_missing(value)}
        if looks_like_a_group(name) and len(people) >= _FEWEST_GROUPS:
            raise OptionError(
                f"--covariates {name}: by its name it identifies people ({len(people)} values over {len(columns[name])} sets), "
                "and a model that is given it can recognise them. Leave it out: it keeps sets together all the same. If the "
                f"model is to have it, say what keeps sets together as well: --group {name}, or --group none."
            )


def refuse_slips_in_groups(varying: Mapping[str, Varies]) -> None:
    """Fails where a column that looks like groups is lost, because a few sets have two values of it."""
    for name, varies in varying.items():
        if varies.is_slip and looks_like_a_group(name):
            raise ValueError(
                f"{name} looks like groups, and is the same in all rows of nearly every set, but not in {varies.where}. Correct "
                "these rows, or say what keeps sets together: --group COL, or --group none."
            )


def looks_like_a_group(name: str) -> bool:
    """Whether a column's name says that it holds people, or whatever else several sets may be of."""
    plain = _plain(name)
    if _EXACT_NAME.fullmatch(plain):
        return True
    return _LONGER_NAME.fullmatch(plain) is not None and not _ASKS.fullmatch(plain)


def _plain(name: str) -> str:
    """A name in lower case without accents, its words with _ between them."""
    letters = "".join(letter for letter in unicodedata.normalize("NFKD", name) if not unicodedata.combining(letter))
    return re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", letters).lower()).strip("_")


def _is_constant_within(coarse: Array, fine: Array) -> bool:
    """Whether sets that share a value of `fine` share that of `coarse`, where both are known."""
    first: dict[str, str] = {}
    pairs = zip(coarse.tolist(), fine.tolist(), strict=True)
    known_pairs = [(_spelling(c), _spelling(f)) for c, f in pairs if not (is_missing(c) or is_missing(f))]
    return all(first.setdefault(f, c) == c for c, f in known_pairs)


def read_groups(column: Array, name: str, ids: Sequence[str]) -> Array:
    """(N,) groups as text, all known, and each in one spelling."""
    unknown = [set_id for set_id, there in zip(ids, known(column), strict=True) if not there]
    if unknown:
        raise ValueError(
            f"the group {visible(name)} is not known for {len(unknown)} of {len(ids)} sets: {listed(unknown)}. Fill it in, or "
            "say --group none if every set stands for itself."
        )
    groups = np.array([text_of(value) for value in column.tolist()], dtype=object)
    _check_spelling(groups, f"the group {name} has values", ids, OF_ONE_GROUP)
    return groups


@dataclass(frozen=True)
class CovariateTable:
    """Covariates of N sets: numbers, or words.

    Attributes:
        names: K of them.
        values: (N, K) objects: numbers as float, words as text.
        words: For each column of words, all that there are, in order; None for numbers.
    """

    names: tuple[str, ...]
    values: Array
    words: tuple[tuple[str, ...] | None, ...]

    @property
    def encoded(self) -> NDArray[np.float64]:
        """(N, ...) numbers as they are, and a column of 0 and 1 for each word."""
        columns = []
        for column, words in zip(self.values.T, self.words, strict=True):
            columns += [column.astype(np.float64)] if words is None else [(column == word).astype(np.float64) for word in words]
        return np.stack(columns, 1)

    def decode(self, encoded: NDArray[np.float64]) -> Array:
        """(n, K) as in `values`, of rows of `encoded`."""
        columns, at = [], 0
        for words in self.words:
            wide = 1 if words is None else len(words)
            part = encoded[:, at : at + wide]
            columns.append(part[:, 0].astype(object) if words is None else np.array(words, dtype=object)[part.argmax(1)])
            at += wide
        return np.stack(columns, 1)


def read_covariates(
    columns: Mapping[str, Array], names: Sequence[str], ids: Sequence[str], varying: Mapping[str, Varies] | None = None
) -> CovariateTable | None:
    """Covariates by name; None where there are none. A value that is missing is an error, which names the sets.

    Args:
        columns: (N,) each.
        names: The covariates.
        ids: (N,) names of the sets, for messages.
        varying: As for `check_column`.
    """
    if not names:
        return None
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise OptionError(f"--covariates must be names that differ, got {listed(twice)} more than once. Name each of them once.")
    read: list[Array] = []
    words: list[tuple[str, ...] | None] = []
    for name in names:
        column = check_column(columns, name, "--covariates", varying)
        unknown = [set_id for set_id, there in zip(ids, known(column), strict=True) if not there]
        if unknown:
            raise ValueError(
                f"the covariate {visible(name)} is not known for {len(unknown)} of {len(ids)} sets: {listed(unknown)}. Fill it "
                "in, or leave the covariate out."
            )
        if column.dtype.kind in "biuf":
            _refuse_infinite(column, f"the covariate {visible(name)}", ids)
            read.append(column.astype(np.float64).astype(object))
            words.append(None)
        else:
            _check_all_numbers(column, f"the covariate {visible(name)}", ids, "Correct these cells, or leave the covariate out.")
            read.append(np.array([str(value) for value in column.tolist()], dtype=object))
            _check_spelling(read[-1], f"the covariate {visible(name)} has values", ids, _aside(column))
            words.append(tuple(sorted(set(read[-1].tolist()))))
    return CovariateTable(tuple(names), np.stack(read, 1), tuple(words))


def refuse_amounts_as_words(covariates: CovariateTable) -> None:
    """Fails where covariates of words are dates or numbers with a unit. Only in training: a bundle knows its words."""
    for name, column, words in zip(covariates.names, covariates.values.T, covariates.words, strict=True):
        if words is not None:
            _refuse_amounts(column, f"the covariate {visible(name)}", "Correct the column, or leave the covariate out.")


def read_target(
    column: Array, name: str, task: Task, guess: Any, ids: Sequence[str]
) -> tuple[Array, Literal["classification", "regression"], str]:
    """(N,) the target of sets that have one, what is predicted, and why.

    Args:
        column: (N,) without missing values.
        name: Of the column.
        task: What the user says.
        guess: `guess_objective`.
        ids: (N,) names of the sets, for messages.

    Raises:
        ValueError: If the values will not do. It names them and what to do.
    """
    name = visible(name)
    if column.dtype == object and not any(isinstance(value, str) for value in column.tolist()):
        column = np.array(column.tolist())
    if task != "classification":
        fix = "Correct these cells or leave them empty; --task classification takes all for classes."
        _check_all_numbers(column, f"the target {name}", ids, fix)
        if column.dtype.kind == "f" and (infinite := np.flatnonzero(np.isinf(column))).size:
            where = f"{len(infinite)} of {len(column)} sets (first in set {ids[infinite[0]]!r})"
            raise ValueError(f"the target {name} is infinite in {where}: correct these cells or leave them empty.")
    code = find_code(column.tolist()) if column.dtype == object else None
    if task == "auto":
        task, reason = guess(column) if code is None else _guess_of_codes(column, code, guess)
        if task == "classification" and column.dtype.kind in "OUS":
            _refuse_amounts(column, f"the target {name}", "Correct the column; --task classification takes each for a class.")
    else:
        reason = "as asked for"
    if task == "regression":
        column = column if code is None else column.astype(np.float64)
        if column.dtype.kind not in "biuf":
            word = next((value for value in column.tolist() if not is_number(str(value))), column[0])
            raise OptionError(f"--task regression needs numbers, but {name} holds words, such as {word!r}.")
        numbers = column.astype(np.float64)
        if (large := np.flatnonzero(np.abs(numbers) > LARGEST_TARGET)).size:
            where = f"{len(large)} of {len(numbers)} sets (first {numbers[large[0]]:g} in set {ids[large[0]]!r})"
            raise ValueError(
                f"the target {name} is beyond {LARGEST_TARGET:g} in {where}, too large for squared errors: give it in "
                "another unit, or its logarithm."
            )
        if (numbers == numbers[0]).all():
            raise ValueError(
                f"the target {name} is {text_of(numbers[0])} for all {len(numbers)} sets: there is nothing to learn."
            )
        return numbers, "regression", reason
    labels = column
    if column.dtype.kind == "f" and (column == np.round(column)).all() and (abs(column) < 2**53).all():
        labels = column.astype(np.int64)  # 0 and 1, which a table with gaps has as 0.0 and 1.0
    elif column.dtype == object:
        labels = np.array([str(value) for value in column.tolist()])
        _check_spelling(labels, f"the target {name} has classes", ids, _aside(column))
    classes = np.unique(labels)
    if len(classes) < 2:
        only = text_of(classes.tolist()[0])
        raise ValueError(
            f"the target {name} has one class only, {only}, in all {len(labels)} sets: there is nothing to tell apart."
        )
    return labels, "classification", reason


def _aside(column: Array) -> Sequence[Aside]:
    """What two words may not differ in alone: T1 and T01 may be two stages, but 1 and 01 are one number, written twice."""
    return OF_ONE_GROUP if find_code(column.tolist()) else ("capitals",)


def _guess_of_codes(column: Array, code: str, guess: Any) -> tuple[Literal["classification", "regression"], str]:
    """Of codes such as 01 there are as few as of classes, gaps between them or not; many are amounts with zeros before them."""
    codes, ranks = np.unique(column.astype(str), return_inverse=True)
    written = f"{len(codes)} different {'codes' if len(codes) > 1 else 'code'}, written as {code}"
    if guess(ranks)[0] == "classification":
        return "classification", written
    return "regression", f"{written}, are too many for classes"


def _refuse_infinite(column: Array, what: str, ids: Sequence[str]) -> None:
    bad = [set_id for set_id, is_finite in zip(ids, np.isfinite(column.astype(np.float64)), strict=True) if not is_finite]
    if bad:
        raise ValueError(f"{what} is infinite in {len(bad)} of {len(ids)} sets: {listed(bad)}. Correct these cells.")


def _check_all_numbers(column: Array, what: str, ids: Sequence[str], fix: str) -> None:
    """A few words among many numbers are slips, and no classes."""
    values = [str(value) for value in column.tolist()] if column.dtype.kind in "OUS" else []
    different = set(values)
    words = {value for value in different if not is_number(value)}
    num_slips = sum(value in words for value in values)
    few = len(words) * _ONE_IN <= len(different) or num_slips * _ONE_IN <= len(values)
    limits = all(_LIMIT.fullmatch(word) for word in words) and _are_measured(different - words)  # <0.3 is no class there
    if not words or not (few or limits):
        return
    slips = [f"{value!r} ({set_id})" for value, set_id in zip(values, ids, strict=True) if value in words]
    raise ValueError(
        f"{what} is a number in {len(values) - len(slips)} of {len(values)} sets, and a word in {len(slips)}: "
        f"{listed(slips, _NAMED)}. {fix}"
    )


def _refuse_amounts(column: Array, what: str, fix: str) -> None:
    """Dates, and numbers that are text, are no classes where there are many: a few may be batches or grades."""
    different = sorted({str(value).strip() for value in column.tolist()})
    if len(different) <= _MOST_GRADES:
        return
    many = f"such as {different[0]!r}, which would be {len(different):,} words without an order"
    if all(map(_DATE.fullmatch, different)):
        raise ValueError(f"{what} holds dates, {many}. Give a number, such as days since a day, or an age. {fix}")
    if all(map(is_number, different)):
        if not any(re.fullmatch(r"0\d+", word) for word in different):  # 001 is a code
            fix = f"Store them as numbers, or as words, such as 'no. {different[0]}'. {fix}"
            raise ValueError(f"{what} holds numbers that the file has as text, {many}. {fix}")
        return
    units = {found[1] if (found := _WITH_UNIT.fullmatch(word)) else None for word in different}
    if len(units) == 1 and None not in units:
        written = f"with {units.pop()!r} behind them" if any(units) else "with a decimal comma or another sign"
        raise ValueError(f"{what} holds numbers {written}, {many}. Write plain numbers, such as 1.5. {fix}")


def _are_measured(numbers: set[str]) -> bool:
    """Whether these are amounts rather than grades: 0, 1, 2 and >2 are four grades."""
    return len(numbers) > _MOST_GRADES or not all(float(number).is_integer() for number in numbers if "," not in number)


def _check_spelling(labels: Array, what: str, ids: Sequence[str], aside: Sequence[Aside]) -> None:
    """Classes or groups that differ only by case, by spaces or the like are one, with slips in its name."""
    alike = find_alike(sorted(labels.tolist()), aside=aside)
    if not alike:
        return
    counts = Counter(labels.tolist())
    usual, *rest = sorted(alike[0], key=lambda value: (counts[value], value), reverse=True)
    quoted = dict(zip([usual, *rest], show_apart([usual, *rest]), strict=True))
    how = {describe_difference(usual, other) for other in rest}
    how = {"case or spaces"} if how <= {"capitals", "spaces"} else how
    slips = [f"{quoted[value]} ({set_id})" for value, set_id in zip(labels.tolist(), ids, strict=True) if value in rest]
    count = counts[usual]
    raise ValueError(
        f"{what} that differ only by {' or '.join(sorted(how))}: {quoted[usual]} in {counted(count, 'set')}, but "
        f"{listed(slips, _NAMED)}. Write them alike."
    )


def _spelling(value: Any) -> str:
    """What the spellings of a group have in common."""
    return spelling(value, aside=OF_ONE_GROUP)


def count_classes(labels: Array) -> dict[str, int]:
    """How many sets each class has, in the order of classes."""
    classes, counts = np.unique(labels, return_counts=True)
    return {text_of(value): int(count) for value, count in zip(classes.tolist(), counts, strict=True)}
