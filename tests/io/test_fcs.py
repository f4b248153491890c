"""FCS files one by one: names, spillover, events, and headers that are wrong in the ways that real ones are."""

import re

import flowio
import numpy as np
import pytest

from orderless.io.errors import DataError
from orderless.io.fcs import compensate_events, read_events, read_head, read_spillover

EVENTS = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)


def write(path, events=EVENTS, channels=("A", "B", "C"), markers=("CD3", "CD4", ""), **keywords):
    with path.open("wb") as file:
        flowio.create_fcs(file, np.ravel(events).tolist(), list(channels), list(markers), keywords)
    return path


def edit(path, change):
    path.write_bytes(change(path.read_bytes()))
    return path


def set_header(raw, field, value):
    """Overwrites one of the numbers of the header: 8 bytes each from byte 10 on."""
    start = 10 + 8 * ("text_start", "text_stop", "data_start", "data_stop").index(field)
    return raw[:start] + f"{value:8d}".encode() + raw[start + 8 :]


def set_keyword(raw, keyword, value):
    """Overwrites a keyword's value by one of the same length, so that nothing moves."""
    found = re.search(rb"(\$" + keyword.encode() + rb"(.))([^\x00]*?)\2", raw, re.I)
    old = found[3]
    assert len(str(value)) <= len(old)
    return raw[: found.start(3)] + str(value).rjust(len(old), "0").encode() + raw[found.end(3) :]


def test_markers_are_named_and_fall_back_to_channels(tmp_path):
    head = read_head(write(tmp_path / "a.fcs"))
    assert head.channels == ("A", "B", "C")
    assert head.markers == ("CD3", "CD4", "C")
    assert head.num_events == 5
    events, faults = read_events(head)
    np.testing.assert_array_equal(events, EVENTS)
    assert faults == []


def test_markers_of_one_name_are_told_apart_by_their_channel(tmp_path):
    assert read_head(write(tmp_path / "a.fcs", markers=("Empty", "CD4", "Empty"))).markers == ("Empty A", "CD4", "Empty C")


def test_spillover_is_taken_out(tmp_path):
    path = write(tmp_path / "a.fcs", spillover="2,A,C,1,0.25,0.1,1")
    spillover = read_spillover(read_head(path))
    true = np.array([[1.0, 7.0, 2.0], [3.0, 7.0, 4.0]])
    measured = true.copy()
    measured[:, [0, 2]] = true[:, [0, 2]] @ np.array([[1, 0.25], [0.1, 1]])
    compensate_events(measured, spillover)
    np.testing.assert_allclose(measured, true, rtol=1e-14)
    assert read_spillover(read_head(write(tmp_path / "b.fcs"))) is None


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("2,A,B,1,0.1", "expected a spillover matrix with the names of its channels, found '2,A,B,1,0.1'"),
        ("2,A,Z,1,0,0,1", "expected channels of the file in its spillover matrix, found 'Z'"),
        ("2,A,A,1,0.1,0.2,1", "expected a spillover matrix with each channel once, found '2,A,A,1,0.1,0.2,1'"),
        ("2,A,CD3,1,0.1,0.2,1", "expected a spillover matrix with each channel once, found '2,A,CD3,1,0.1,0.2,1'"),
        ("2,A,B,1,1,1,1", "expected a spillover matrix that can be inverted"),
    ],
    ids=["short", "unknown", "twice", "twice by its marker", "singular"],
)
def test_a_spillover_that_cannot_be_used_is_an_error(tmp_path, value, message):
    with pytest.raises(DataError, match=message + ".*compensate=False"):
        read_spillover(read_head(write(tmp_path / "a.fcs", spillover=value)))


def data_stop(raw):
    return int(raw[34:42])


FAULTS = {
    "one byte too long": (
        lambda raw: set_keyword(set_header(raw, "data_stop", data_stop(raw) + 1), "ENDDATA", data_stop(raw) + 1) + b"\0",
        "the data section is said to be one byte longer",
    ),
    "header and text disagree": (
        lambda raw: set_header(raw, "data_stop", data_stop(raw) - 4),
        "header and text segment disagree",
    ),
    "offsets in the header only": (lambda raw: set_keyword(raw, "ENDDATA", 0), ""),
    "wrong number of events": (lambda raw: set_keyword(raw, "TOT", 4), "$TOT is not the number of events"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_common_faults_of_headers_are_put_up_with_and_told(tmp_path, fault):
    change, said = FAULTS[fault]
    events, faults = read_events(read_head(edit(write(tmp_path / "a.fcs"), change)))
    np.testing.assert_array_equal(events, EVENTS)
    assert len(faults) == 1
    assert said in faults[0]


def test_empty_values_between_keywords_are_put_up_with(tmp_path):
    path = write(tmp_path / "a.fcs")
    raw = path.read_bytes()
    delimiter, stop = raw[int(raw[10:18]) :][:1], int(raw[18:26])
    # as some writers do: nothing between two delimiters, which by the standard is one delimiter
    raw = raw.replace(delimiter + b"CD4" + delimiter, 2 * delimiter)
    path.write_bytes(raw[: stop - 2] + b"   " + raw[stop - 2 :])  # the text segment keeps its length
    head = read_head(path)
    assert head.markers[0] == "CD3"
    np.testing.assert_array_equal(read_events(head)[0], EVENTS)


@pytest.mark.parametrize("delimiter", [b"/", b"+"])  # one that flowio knows, and one that it does not
@pytest.mark.parametrize("cut", [0, 1], ids=["as written", "without the last delimiter"])
def test_the_last_keyword_keeps_its_last_letter(tmp_path, cut, delimiter):
    path = write(tmp_path / "a.fcs", markers=("CD3", "CD4", "CD45"))
    raw = path.read_bytes()
    begin, stop = int(raw[10:18]), int(raw[18:26])
    text = raw[begin : stop + 1]
    assert text.endswith(b"/$P3S/CD45/")
    raw = raw[:begin] + text.replace(b"/", delimiter) + raw[stop + 1 :]
    path.write_bytes(set_header(raw, "text_stop", stop - cut))
    head = read_head(path)
    assert head.markers == ("CD3", "CD4", "CD45")
    np.testing.assert_array_equal(read_events(head)[0], EVENTS)


def with_supplement(raw, text, *, stop=None):
    """Writes a supplemental text segment into the room between header and text segment, and says where it is."""
    raw = raw.replace(b"COM/......", b"COM/..")  # so that nothing moves
    for keyword, place in ((b"$BEGINSTEXT", 60), (b"$ENDSTEXT", stop or 59 + len(text))):
        raw = raw.replace(keyword + b"/0/", keyword + b"/%03d/" % place)
    return raw[:60] + text + raw[60 + len(text) :]


def test_keywords_of_a_supplemental_text_segment_count_and_do_not_override(tmp_path):
    text = b"/$SPILLOVER/2,A,C,1,0.25,0.1,1/$P3S/CD8/$P1S/CD99/"
    head = read_head(edit(write(tmp_path / "a.fcs", COM="......"), lambda raw: with_supplement(raw, text)))
    assert head.markers == ("CD3", "CD4", "CD8")
    channels, matrix = read_spillover(head)
    assert channels == [0, 2]
    np.testing.assert_array_equal(matrix, [[1, 0.25], [0.1, 1]])
    events, faults = read_events(head)
    np.testing.assert_array_equal(events, EVENTS)
    assert faults == []


@pytest.mark.parametrize(("text", "stop"), [(b" " * 40, None), (b"/$P3S/CD8/", 999)], ids=["something else", "beyond the end"])
def test_a_supplemental_text_segment_that_is_not_there_is_told(tmp_path, text, stop):
    head = read_head(edit(write(tmp_path / "a.fcs", COM="......"), lambda raw: with_supplement(raw, text, stop=stop)))
    events, faults = read_events(head)
    np.testing.assert_array_equal(events, EVENTS)
    assert faults == ["the supplemental text segment is not where the file says, so its keywords were not read"]


def test_a_file_without_events_has_none(tmp_path):
    head = read_head(write(tmp_path / "a.fcs", events=np.empty((0, 3))))
    events, faults = read_events(head)
    assert events.shape == (0, 3)
    assert faults == []


def put_keyword(raw, keyword, value):
    """Overwrites a keyword's value by another of the same length, letters included."""
    found = re.search(rb"\$" + keyword.encode() + rb"(.)([^\x00]*?)\1", raw, re.I)
    assert len(value) == len(found[2])
    return raw[: found.start(2)] + value.encode() + raw[found.end(2) :]


def test_histograms_are_refused(tmp_path):
    for mode in "CUH":
        path = edit(write(tmp_path / "a.fcs"), lambda raw, mode=mode: put_keyword(raw, "MODE", mode))
        with pytest.raises(DataError, match=rf"a\.fcs: expected a list of events \(\$MODE L\), found '{mode}', as of a file"):
            read_head(path)
    np.testing.assert_array_equal(read_events(read_head(edit(path, lambda raw: put_keyword(raw, "MODE", "l"))))[0], EVENTS)


def test_mixed_orders_of_bytes_are_refused(tmp_path):
    path = edit(write(tmp_path / "a.fcs"), lambda raw: put_keyword(raw, "BYTEORD", "3,4,1,2"))
    with pytest.raises(DataError, match=r"expected bytes in the order 1,2,3,4 or 4,3,2,1 \(\$BYTEORD\), found '3,4,1,2'"):
        read_head(path)


def test_both_orders_of_bytes_are_read(tmp_path):
    def turn(raw):
        turned = EVENTS.astype(">f4").tobytes()
        at = raw.index(EVENTS.tobytes())
        return put_keyword(raw[:at] + turned + raw[at + len(turned) :], "BYTEORD", "4,3,2,1")

    np.testing.assert_array_equal(read_events(read_head(edit(write(tmp_path / "a.fcs"), turn)))[0], EVENTS)


def test_channels_of_different_types_are_refused(tmp_path):
    write(tmp_path / "a.fcs", P1DATATYPE="F", P3DATATYPE="I")  # as FCS 3.2 allows: whole numbers, of 32 bits as the others are
    expected = r"all channels of one type \(\$DATATYPE F\), found \$P3DATATYPE I\. Export the file with one type"
    with pytest.raises(DataError, match=expected):
        read_head(tmp_path / "a.fcs")
    assert read_events(read_head(write(tmp_path / "b.fcs", P1DATATYPE="f")))[1] == []


def test_numbers_of_another_width_than_their_type_has_are_refused(tmp_path):
    path = write(tmp_path / "a.fcs", events=EVENTS.astype(np.float64).view(np.float32))  # twice as many numbers as $TOT says
    path = edit(path, lambda raw: set_keyword(raw, "TOT", 5))
    assert read_events(read_head(path))[1] == ["$TOT is not the number of events that are there"]
    for channel in "123":
        path = edit(path, lambda raw, channel=channel: put_keyword(raw, f"P{channel}B", "64"))
    expected = r"expected numbers of 32 bits \(\$DATATYPE F\), found 64 bits \(\$PnB\), and another number of events than \$TOT"
    with pytest.raises(DataError, match=expected):
        read_events(read_head(path))


def test_floating_point_numbers_are_linear_whatever_the_amplification_says(tmp_path):
    # by the standard $PnE is 0,0 there: powers of ten of numbers that are linear already would be absurd
    path = edit(write(tmp_path / "a.fcs"), lambda raw: put_keyword(raw, "P1E", "4,1"))
    events, faults = read_events(read_head(path))
    np.testing.assert_array_equal(events, EVENTS)
    assert faults == [
        "a log amplification ($PnE) of floating point numbers, which are linear by the standard, so it was not applied"
    ]


def test_files_that_are_cut_or_of_another_kind_are_refused(tmp_path):
    whole = write(tmp_path / "a.fcs").read_bytes()
    cut = tmp_path / "cut.fcs"
    cut.write_bytes(whole[:-20])
    with pytest.raises(DataError, match=r"cut\.fcs: expected an FCS file, found a damaged one"):
        read_events(read_head(cut))
    cut.write_bytes(set_header(set_header(whole, "data_start", 0), "data_stop", 0)[:-20])  # as in files above 100 MB
    with pytest.raises(DataError, match=r"cut\.fcs: expected an FCS file, found a damaged one"):
        read_events(read_head(cut))
    cut.write_bytes(b"sample,a\n1,2\n")
    with pytest.raises(DataError, match="a file that does not begin with 'FCS'"):
        read_head(cut)
