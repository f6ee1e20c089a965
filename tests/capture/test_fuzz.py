"""Damaged captures: the reader does not crash, and every frame has a row or is counted."""

import gzip

import pytest
from conftest import PUBLIC_CAPTURES
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_jobs.base.errors import UserError
from tests.helpers.bad_input import (
    BLOCKS,
    PCAP,
    PCAPNG,
    RECORDS,
    changed,
    sound,
    unnumbered,
)
from tests.helpers.capture_files import (
    NOON,
    Frame,
    pcap,
    pcap_header,
    read,
)
from tests.helpers.capture_seeds import MIXED, SEEDS
from tests.helpers.damage import damaged
from tests.helpers.layers import (
    CARRIERS,
    SYN,
)

fuzz = settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def accounts_for_every_frame(found) -> bool:
    """Every frame has a row, or is counted under a reason that costs the row."""
    numbers = set(found.numbers)
    return len(numbers) + found.unread == found.frames and numbers <= set(
        range(1, found.frames + 1)
    )


@fuzz
@given(file=damaged(SEEDS), batch_packets=st.sampled_from([1, 5, 1 << 20]))
def test_damaged_captures_are_read_and_every_frame_accounted_for(file, batch_packets):
    try:
        found = read(file, batch_packets=batch_packets)
    except UserError:
        return
    assert accounts_for_every_frame(found)


@fuzz
@given(body=st.binary(max_size=400), header=st.sampled_from([PCAP, PCAPNG, pcap_header(1), b""]))
def test_noise_is_read_and_every_frame_accounted_for(body, header):
    try:
        found = read(header + body)
    except UserError:
        assert header == b""
        return
    assert accounts_for_every_frame(found)


@fuzz
@given(
    packet=st.sampled_from([f.data for f in MIXED]),
    flips=st.lists(st.tuples(st.integers(0, 150), st.integers(0, 255)), min_size=1, max_size=8),
    link_type=st.sampled_from(sorted({carrier.link_type for carrier in CARRIERS} | {229})),
    snap=st.integers(0, 150),
)
def test_damaged_packets_are_rows_or_counted(packet, flips, link_type, snap):
    for at, value in flips:
        packet = changed(packet, at % len(packet), bytes([value]))
    frame = Frame(packet).cut(snap)
    found = read(pcap([frame, Frame(SYN)], link_type))
    assert found.frames == 2
    assert accounts_for_every_frame(found)
    beside_another = read(pcap([frame, Frame(b"\x45" * 99, NOON + 999_999)], link_type))
    first, same = ([row for row in f.rows if row["frame"] == 1] for f in (found, beside_another))
    assert first == same, "the bytes after a frame must not show in its row"


@fuzz
@given(data=st.data())
def test_a_damaged_byte_costs_two_packets_at_most(data):
    header, records = data.draw(st.sampled_from([(PCAP, RECORDS), (PCAPNG, BLOCKS)]))
    file = header + b"".join(records)
    at = data.draw(st.integers(len(header), len(file) - 1))
    damaged = changed(file, at, bytes([data.draw(st.integers(0, 255))]))
    found = read(damaged)
    assert accounts_for_every_frame(found)
    untouched = [row for row in unnumbered(found.rows) if row in unnumbered(sound())]
    assert len(untouched) >= len(sound()) - 2


REAL = [
    "tcptrace/dlt_null.dmp.gz",
    "tcptrace/psc.fddi.dmp.gz",
    "tcptrace/ppp_over_eth.dmp.gz",
    "tcptrace/ipopts.dmp.gz",
    "tcptrace/pcap_v2.2.dmp.gz",
    "packets/tcp_dupack.pcapng",
]


@pytest.fixture(scope="module")
def real() -> list[bytes]:
    """The first 20 kB of real captures."""
    found = [PUBLIC_CAPTURES / name for name in REAL if (PUBLIC_CAPTURES / name).exists()]
    if not found:
        pytest.skip(f"no captures in {PUBLIC_CAPTURES}")
    unpack = {".gz": gzip.decompress, ".pcapng": bytes}
    return [unpack[path.suffix](path.read_bytes())[:20_000] for path in found]


@fuzz
@given(
    which=st.integers(0, len(REAL) - 1),
    writes=st.lists(
        st.tuples(st.integers(0, 20_000), st.binary(min_size=1, max_size=6)), max_size=9
    ),
    cut=st.integers(0, 20_000),
)
def test_damaged_real_captures_are_read_and_every_frame_accounted_for(real, which, writes, cut):
    file = real[which % len(real)]
    for at, value in writes:
        file = changed(file, at % len(file), value)
    try:
        found = read(
            file[: len(file) - cut % len(file) // 4], subscribers=["0.0.0.0/1", "128.0.0.0/2"]
        )
    except UserError:
        return
    assert accounts_for_every_frame(found)
