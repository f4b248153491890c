"""One FCS file: its channels, its spillover and its events, read by flowio in spite of the common faults of headers.

Letters: n events, C channels.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orderless.io.errors import DataError
from orderless.io.extras import require
from orderless.io.reading import describe, reading, shown
from orderless.io.samples import listed

_WHAT = "an FCS file"
_AGAIN = "Export the file again, or leave it out."
# flowio reads what the standard allows; then what it can be told to overlook; then by the header instead of the text segment
_ATTEMPTS: tuple[dict[str, bool], ...] = (
    {},
    {"ignore_offset_error": True, "ignore_offset_discrepancy": True},
    {"ignore_offset_error": True, "use_header_offsets": True},
)


@dataclass(frozen=True)
class FcsHead:
    """What an FCS file says of its events.

    Attributes:
        path: The file.
        channels: C names of detectors (`$PnN`).
        markers: C names of markers (`$PnS`, or `$PnN` where there is none), each once.
        num_events: How many events it says that there are (`$TOT`).
        keywords: All keywords in small letters, without `$`.
    """

    path: Path
    channels: tuple[str, ...]
    markers: tuple[str, ...]
    num_events: int
    keywords: Mapping[str, str]


def read_head(path: Path) -> FcsHead:
    """Reads everything but the events."""
    flow, _ = _parse(path, only_text=True)
    channels = tuple(str(name).strip() for name in flow.pnn_labels)
    if not channels or len(channels) != flow.channel_count:
        raise DataError(path, expected=f"names of {flow.channel_count} channels ($PAR)", found=str(len(channels)), fix=_AGAIN)
    _check_layout(path, flow.text)
    _check_types(path, flow.text)
    markers = [str(marker).strip() or channel for marker, channel in zip(flow.pns_labels, channels, strict=True)]
    counts = Counter(markers)
    names = [f"{marker} {channel}" if counts[marker] > 1 else marker for marker, channel in zip(markers, channels, strict=True)]
    counts = Counter(names)
    unique = tuple(f"{name} #{i + 1}" if counts[name] > 1 else name for i, name in enumerate(names))
    return FcsHead(path, channels, unique, flow.event_count, flow.text)


def read_events(head: FcsHead) -> tuple[NDArray[np.float64], list[str]]:
    """Events (n, C) on a linear scale, and faults of the file that did not prevent reading it."""
    num_channels = len(head.channels)
    if head.num_events == 0 and _section(head) < num_channels:
        return np.empty((0, num_channels)), []
    flow, faults = _parse(head.path, only_text=False)
    stored, left_over = divmod(len(flow.events), num_channels)
    if left_over and stored < flow.event_count:
        found = f"{stored} events and a part of one"
        raise DataError(head.path, expected=f"{flow.event_count} events of {num_channels} channels", found=found, fix=_AGAIN)
    if left_over:
        flow.events, stored = flow.events[: flow.event_count * num_channels], flow.event_count
        faults.append("more bytes than events")
    elif stored != flow.event_count:
        _check_bits(head.path, flow.text)
        faults.append("$TOT is not the number of events that are there")
    if flow.has_lost_text:
        faults.append("the supplemental text segment is not where the file says, so its keywords were not read")
    if flow.text.get("nextdata", "0").strip() not in ("", "0"):
        faults.append("more than one data set, of which the first was read")
    if flow.text.get("datatype", "").strip().upper() in ("F", "D"):
        faults += _leave_linear(flow)
    try:
        return flow.as_array(preprocess=True), faults
    except Exception as error:  # flowio raises almost every kind
        raise DataError(head.path, expected=_WHAT, found=f"a damaged one ({describe(error)})", fix=_AGAIN) from error


def read_spillover(head: FcsHead) -> tuple[list[int], NDArray[np.float64]] | None:
    """Which channels spill over, and their matrix S: what is measured is what is there, times S. None where the file has none."""
    found = next((head.keywords[key] for key in ("spillover", "spill", "comp") if head.keywords.get(key, "").strip()), None)
    if found is None:
        return None
    fix = "Read it without compensation: compensate=False."
    try:
        cells = [cell.strip() for cell in found.split(",")]
        count = int(cells[0])
        names, values = cells[1 : count + 1], [float(cell) for cell in cells[count + 1 :]]
        matrix = np.array(values).reshape(count, count)
    except (ValueError, IndexError):
        expected = "a spillover matrix with the names of its channels"
        raise DataError(head.path, expected=expected, found=shown(found), fix=fix) from None
    known = {name: i for i, name in enumerate(head.markers)} | {name: i for i, name in enumerate(head.channels)}
    unknown = [name for name in names if name not in known]
    if unknown:
        expected = "channels of the file in its spillover matrix"
        raise DataError(head.path, expected=expected, found=", ".join(map(shown, unknown[:5])), fix=fix)
    channels = [known[name] for name in names]
    if len(set(channels)) < count:
        raise DataError(head.path, expected="a spillover matrix with each channel once", found=shown(found), fix=fix)
    if not np.isfinite(matrix).all() or not count or np.linalg.cond(matrix) > 1e8:
        raise DataError(head.path, expected="a spillover matrix that can be inverted", found="one that cannot", fix=fix)
    return channels, matrix


def compensate_events(events: NDArray[np.float64], spillover: tuple[list[int], NDArray[np.float64]]) -> None:
    """Takes the spillover out of events (n, C), in place."""
    channels, matrix = spillover
    events[:, channels] = np.linalg.solve(matrix.T, events[:, channels].T).T


def _parse(path: Path, *, only_text: bool) -> tuple[Any, list[str]]:
    """What flowio makes of the file, at the first attempt that gives as many events as there should be, and what was wrong."""
    flowio = require("flowio", "io")
    with reading(path, _WHAT), path.open("rb") as file:
        if not file.read(6).startswith(b"FCS"):
            raise DataError(path, expected=_WHAT, found="a file that does not begin with 'FCS'")
    problems: list[str] = []
    others: list[Any] = []
    for reader in _readers(flowio):
        for options in _ATTEMPTS:
            try:
                with path.open("rb") as file, warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    flow = reader(file, only_text=only_text, nextdata_offset=0, **options)
            except Exception as error:  # flowio raises almost every kind
                problems.append(describe(error).replace(path.name, "it"))
                continue
            if only_text or (flow.events is not None and len(flow.events) == flow.event_count * flow.channel_count):
                return flow, [_fault(problems[0])] if problems else []
            if flow.events is not None and len(flow.events):  # none at all is what offsets of 0 say, as of any large file
                others.append(flow)
            if flow.events is not None:
                problems.append("another number of events than $TOT")
    whole = [flow for flow in others if len(flow.events) % flow.channel_count == 0]
    if not others:
        raise DataError(path, expected=_WHAT, found=f"a damaged one ({problems[0] if problems else 'no events'})", fix=_AGAIN)
    return (whole or others)[0], []


def _check_layout(path: Path, keywords: Mapping[str, str]) -> None:
    """That it holds events, in an order of bytes that can be read: flowio would read anything else as if it did."""
    mode = keywords.get("mode", "").strip()
    if mode.upper() not in ("", "L"):
        found = f"{shown(mode)}, as of a file of histograms"
        raise DataError(path, expected="a list of events ($MODE L)", found=found, fix="Export the events themselves (list mode).")
    order = keywords.get("byteord", "").strip()
    numbers = [cell.strip() for cell in order.split(",")]
    rising = [str(n) for n in range(1, len(numbers) + 1)]  # which flowio takes in any spelling
    if order and numbers != rising and order not in ("4,3,2,1", "2,1"):
        raise DataError(path, expected="bytes in the order 1,2,3,4 or 4,3,2,1 ($BYTEORD)", found=shown(order), fix=_AGAIN)


def _check_types(path: Path, keywords: Mapping[str, str]) -> None:
    """That all channels hold numbers of one type, which FCS 3.2 does not demand: flowio would read all as of `$DATATYPE`."""
    common = keywords.get("datatype", "").strip().upper()
    own = {f"$P{n}DATATYPE": keywords.get(f"p{n}datatype", "").strip() for n in range(1, int(keywords["par"]) + 1)}
    other = [f"{name} {value}" for name, value in own.items() if value.upper() not in ("", common)]
    if other:
        fix = "Export the file with one type for all channels (FCS 3.1), or leave it out."
        raise DataError(path, expected=f"all channels of one type ($DATATYPE {common})", found=listed(other), fix=fix)


def _check_bits(path: Path, keywords: Mapping[str, str]) -> None:
    """That floating point numbers are as wide as their type says: if not, and if their number is wrong, it is the type."""
    kind = keywords.get("datatype", "").strip().upper()
    width = {"F": "32", "D": "64"}.get(kind)
    bits = {keywords.get(f"p{n}b", "").strip() for n in range(1, int(keywords["par"]) + 1)}
    if width and bits != {width}:
        found = f"{listed(sorted(bits))} bits ($PnB), and another number of events than $TOT"
        raise DataError(path, expected=f"numbers of {width} bits ($DATATYPE {kind})", found=found, fix=_AGAIN)


def _leave_linear(flow: Any) -> list[str]:
    """Forgets log amplification of floating point numbers, for which the standard demands $PnE 0,0, and gives what to tell."""
    amplified = [channel for channel in flow.channels.values() if channel["pne"][0] > 0]
    for channel in amplified:
        channel["pne"] = (0.0, 0.0)
    told = "a log amplification ($PnE) of floating point numbers, which are linear by the standard, so it was not applied"
    return [told] if amplified else []


def _fault(problem: str) -> str:
    if "off by 1" in problem:
        return "the data section is said to be one byte longer than it is"
    if "discrepancy" in problem:
        return "header and text segment disagree on where the events are"
    return problem if "number of events" in problem else f"the header is not to the standard ({problem})"


def _section(head: FcsHead) -> int:
    """Bytes of the data section, by the text segment."""
    try:
        return int(head.keywords["enddata"]) - int(head.keywords["begindata"])
    except (KeyError, ValueError):
        return 0


def _readers(flowio: Any) -> tuple[Any, Any]:
    """flowio's reader, which now reads all keywords, and one that takes any character between them, and empty values, too."""

    class Reader(flowio.FlowData):  # type: ignore[misc]
        has_lost_text = False

        def _FlowData__parse_text(self, offset: int, start: int, stop: int) -> dict[str, str]:  # noqa: N802 - flowio's own name
            """Keywords of a text segment and of its supplement, where what the standard does not demand may be."""
            keywords: dict[str, str] = super()._FlowData__parse_text(offset, start, stop)
            first, last = (_place(keywords, key) for key in ("beginstext", "endstext"))
            if not 0 < first < last or first == start:
                return keywords
            starts = {self._byte(offset + place) for place in (first, start)}  # both begin with the delimiter
            if len(starts) > 1 or offset + last >= self.file_size:
                self.has_lost_text = True
                return keywords
            return {**super()._FlowData__parse_text(offset, first, last), **keywords}

        @staticmethod
        def _FlowData__parse_pairs(text: str) -> dict[str, str]:  # noqa: N802
            pairs: dict[str, str] = flowio.FlowData._FlowData__parse_pairs(_closed(text))
            return pairs

        def _byte(self, place: int) -> bytes:
            self._fh.seek(place)
            byte: bytes = self._fh.read(1)
            return byte

    class Tolerant(Reader):
        @staticmethod
        def _FlowData__parse_pairs(text: str) -> dict[str, str]:  # noqa: N802
            delimiter = text[0]
            body = _closed(text)[1:-1]
            escaped = re.split(f"(?<!{re.escape(delimiter)}){re.escape(delimiter)}(?!{re.escape(delimiter)})", body)
            pairs = dict(zip(escaped[::2], escaped[1::2], strict=False))
            if not {"$PAR", "$TOT"} <= {key.upper() for key in pairs}:  # then two of them are an empty value
                plain = body.split(delimiter)
                pairs = dict(zip(plain[::2], plain[1::2], strict=False))
            return {key.strip().lower().replace("$", ""): value.replace(2 * delimiter, delimiter) for key, value in pairs.items()}

    return Reader, Tolerant


def _closed(text: str) -> str:
    """A text segment with a delimiter at its end: flowio cuts off what is there, be it a letter of the last value."""
    bare = text.rstrip("\0\r\n ")
    return bare if bare.endswith(text[0]) else bare + text[0]


def _place(keywords: Mapping[str, str], key: str) -> int:
    """What a keyword says of where something is; 0 where it says nothing."""
    said = keywords.get(key, "").strip()
    return int(said) if said.isdecimal() else 0
