"""Labels of users in RADIUS attributes. The right answers are those of tshark 4.4."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.labels import LABELS
from spark_jobs.capture.labels import MALFORMED, label_columns
from spark_jobs.capture.reader import ReadStats

NAMES = [column.name for column in LABELS]
TAI_AND_ECGI = "8262f2201a2b62f22000abcdef"


def labels(stats: ReadStats, values: dict, area="cell", device="model") -> dict:
    """Return the labels of one message."""
    texts = pa.record_batch({name: pa.array([values.get(name)], pa.string()) for name in NAMES})
    found = label_columns(texts, area, device, stats)
    return {name: column.to_pylist()[0] for name, column in found.items() if column.null_count == 0}


@pytest.mark.parametrize(
    ("name", "value", "label"),
    [
        ("apn", "internet", "internet"),
        ("apn", "Internet.mnc002.mcc262.gprs", "internet"),
        ("apn", "iot.example.org", "iot.example.org"),
        ("rat", "01", "UTRAN"),
        ("rat", "02", "GERAN"),
        ("rat", "06", "EUTRAN"),
        ("rat", "0a", "NR"),
        ("rat", "33", "NR"),
        ("area", "0062f2201a2b0c0d", "CGI 262-02 1a2b 0c0d"),
        ("area", "0162f2201a2b0c0d", "SAI 262-02 1a2b 0c0d"),
        ("area", "0262f2201a2b0cff", "RAI 262-02 1a2b 0c"),
        ("area", "0262f2201a2b0c", "RAI 262-02 1a2b 0c"),
        ("area", "8062f2201a2b", "TAI 262-02 1a2b"),
        ("area", "8113001400abcdef", "ECGI 310-410 00abcdef"),
        ("area", TAI_AND_ECGI, "ECGI 262-02 00abcdef"),
        ("area", "8762f2200123456789", "NCGI 262-02 0123456789"),
        ("area", "8862f220001122", "TAI 262-02 001122"),
        ("area", "8962f22000112262f2200123456789", "NCGI 262-02 0123456789"),
        ("device", "35209900", "35209900"),
        ("home", "26202", "262-02"),
        ("visited", "310410", "310-410"),
        ("qci", "08-4D080000002710000000138800", 8),
        ("qci", "15-2209000003E8000007D0", 9),
    ],
)
def test_values_of_the_standards(name, value, label):
    stats = ReadStats()
    assert labels(stats, {name: value}) == {name: label}
    assert not stats.skipped


@pytest.mark.parametrize(
    ("value", "area"),
    [
        ("0062f2201a2b0c0d", "LAI 262-02 1a2b"),
        ("0162f2201a2b0c0d", "LAI 262-02 1a2b"),
        (TAI_AND_ECGI, "TAI 262-02 1a2b"),
        ("8962f22000112262f2200123456789", "TAI 262-02 001122"),
        ("8113001400abcdef", None),
    ],
)
def test_an_area_has_no_cell(value, area):
    stats = ReadStats()
    expected = {"area": area} if area else {}
    assert labels(stats, {"area": value}, area="area") == expected
    assert not stats.skipped


def test_places_and_devices_are_left_out_unless_the_file_asks_for_them():
    values = {"area": TAI_AND_ECGI, "device": "35209900"}
    assert labels(ReadStats(), values, "none", "none") == {}


def test_classes_of_earlier_bearers_are_no_qci():
    stats = ReadStats()
    assert labels(stats, {"qci": "99-0B921F9396404074F9FFFF"}) == {}
    assert not stats.skipped


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("apn", "secret@example.org"),
        ("rat", "00"),
        ("rat", "0606"),
        ("area", "8062f2201a"),
        ("area", "8062f2201a2b00"),
        ("area", "80aaf2201a2b"),
        ("area", "7f62f2201a2b"),
        ("device", "3520990"),
        ("home", "2620"),
        ("qci", "08-4D00"),
        ("qci", "08"),
        ("qci", "77-4D08"),
    ],
)
def test_other_values_are_null_and_counted(name, value):
    stats = ReadStats()
    assert labels(stats, {name: value}) == {}
    assert stats.skipped == {MALFORMED: 1}


@given(st.sampled_from(NAMES), st.text() | st.binary().map(bytes.hex))
def test_any_value_is_a_label_or_counted(name, value):
    stats = ReadStats()
    found = labels(stats, {name: value})
    assert not (found and stats.skipped)
