"""Connections that go on for days: each is one row, complete, on the day on which it begins.

Each TCP packet is in one connection, or counted as out of window, over all days; the quality check
`no_flow_share` says so of each day.
"""

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from conftest import ask
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scapy.layers.inet import IP, TCP

from schemas import PACKETS
from spark_jobs.capture.users import SECRET_VARIABLE
from spark_jobs.estimators.connections import IDLE_TIMEOUT_US
from spark_jobs.ingest.job import ingest_capture
from spark_jobs.jobs import flows, quality, remove_data
from spark_jobs.settings.networks import Network, Retention
from spark_jobs.warehouse.store import Warehouse
from spark_jobs.warehouse.targets import stem
from tests.helpers.capture_files import Frame, pcap

FIRST_DAY = date(2004, 3, 2)
HOUR_US = 3_600_000_000
MIDNIGHT_US = int(datetime.combine(FIRST_DAY, datetime.min.time(), UTC).timestamp()) * 1_000_000
IDLE_HOURS = IDLE_TIMEOUT_US / HOUR_US

pytestmark = pytest.mark.usefixtures("in_this_process")


def exchanges(hours: Iterable[float], user: int = 1, port: int = 4000) -> list[Frame]:
    """Make a connection with a segment to the mobile, and its ACK, at each of these times.

    hours: since the first day's midnight; the first one is that of the handshake.
    """
    begin, *later = hours
    mobile, server = (f"10.64.0.{user}", port), ("198.51.100.1", 443)

    def frame(hour: float, after_us: int, up: bool, flags: str, seq: int, ack: int, data: int = 0):
        (src, sport), (dst, dport) = (mobile, server) if up else (server, mobile)
        packet = IP(src=src, dst=dst, id=seq & 0xFFFF) / TCP(
            sport=sport, dport=dport, flags=flags, seq=seq, ack=ack
        )
        return Frame(bytes(packet / bytes(data)), MIDNIGHT_US + int(hour * HOUR_US) + after_us)

    frames = [
        frame(begin, 0, True, "S", 99, 0),
        frame(begin, 40_000, False, "SA", 499, 100),
        frame(begin, 90_000, True, "A", 100, 500),
    ]
    for number, hour in enumerate(later):
        seq = 500 + 100 * number
        frames += [
            frame(hour, 0, False, "PA", seq, 100, 100),
            frame(hour, 50_000, True, "A", 100, seq + 100),
        ]
    return frames


def by_day(frames: Iterable[Frame]) -> dict[date, list[Frame]]:
    days = defaultdict(list)
    for frame in sorted(frames, key=lambda frame: frame.ts):
        days[datetime.fromtimestamp(frame.ts / 1e6, UTC).date()].append(frame)
    return dict(sorted(days.items()))


def add(warehouse: Warehouse, network: Network, folder: Path, day: date, frames: list[Frame]):
    path = folder / f"{day}.pcap"
    path.write_bytes(pcap(frames))
    assert ingest_capture(warehouse, network, path).error is None


def update(warehouse: Warehouse, network: Network) -> set[date]:
    """Bring the flows up to date, assert that no packet is left out, and return the days made."""
    made = {day for _, day in flows.bring_up_to_date(warehouse, [network])}
    quality.check(warehouse, [network])
    query = "select date, value from quality where measure = 'no_flow_share' and value <> 0"
    assert ask(warehouse, query).fetchall() == []
    return made


def rows(warehouse: Warehouse, query: str = "from flows order by start_ts, flow_id") -> list[dict]:
    return ask(warehouse, query).to_arrow_table().to_pylist()


LONG = exchanges([20, *range(21, 117)])
"""A connection from 20:00 of the first day to 20:00 of the fifth, with data every hour."""
SHORT = [frame for day in range(5) for frame in exchanges([24 * day + 12, 24 * day + 12.1], user=2)]


def test_a_connection_of_days_is_one_row_as_soon_as_its_packets_are_there(
    warehouse, network, tmp_path
):
    """Each day's run makes only the new day, the one before, and the first day once more."""
    for number, (day, frames) in enumerate(by_day(LONG + SHORT).items()):
        add(warehouse, network, tmp_path, day, frames)
        made = update(warehouse, network)
        assert made == {day, max(FIRST_DAY, day - timedelta(days=1)), FIRST_DAY}
        assert update(warehouse, network) == set()
        [row] = rows(warehouse, "from flows where server_port = 443 and payload_bytes_down > 100")
        hours = min(96, 24 * number + 3)
        assert row["date"] == FIRST_DAY
        assert (row["payload_bytes_down"], row["packets_down"]) == (100 * hours, hours + 1)
    step_by_step = rows(warehouse)
    assert len(step_by_step) == 6
    at_once = Warehouse(tmp_path / "at-once")
    for day, frames in by_day(LONG + SHORT).items():
        add(at_once, network, tmp_path, day, frames)
    update(at_once, network)
    assert rows(at_once) == step_by_step


def test_rows_of_other_users_stay_when_a_connection_goes_on(warehouse, network, tmp_path):
    days = by_day(LONG + SHORT)
    for day in list(days)[:3]:
        add(warehouse, network, tmp_path, day, days[day])
    update(warehouse, network)

    def files() -> dict[bool, set[Path]]:
        found = {True: set(), False: set()}
        for path in warehouse.files(flows.FLOWS, network.name, FIRST_DAY):
            found[stem(str(path)).startswith("going-on")].add(path)
        return found

    before = files()
    add(warehouse, network, tmp_path, list(days)[3], days[list(days)[3]])
    update(warehouse, network)
    after = files()
    assert before[False] == after[False] != set()
    assert before[True].isdisjoint(after[True])
    assert len(before[True]) == len(after[True]) == 1


def test_a_silence_longer_than_the_timeout_ends_a_connection(warehouse, network, tmp_path):
    early = [20, *range(21, 52)]
    frames = exchanges([*early, 51 + 1.01 * IDLE_HOURS, 55])
    for day, of_day in by_day(frames).items():
        add(warehouse, network, tmp_path, day, of_day)
    update(warehouse, network)
    found = [(row["date"], row["payload_bytes_down"]) for row in rows(warehouse)]
    assert found == [(FIRST_DAY, 3100), (FIRST_DAY + timedelta(days=2), 200)]


def test_what_is_left_after_a_purge_is_a_row_of_its_own(warehouse, network, tmp_path):
    """The packets of the day on which the connection begins are purged before its last day."""
    days = by_day(LONG)
    for day in list(days)[:4]:
        add(warehouse, network, tmp_path, day, days[day])
        update(warehouse, network)
    keep = network.model_copy(update={"retention": Retention(packets=2)})
    removed = remove_data.retain(warehouse, [keep], FIRST_DAY + timedelta(days=3))
    assert PACKETS in removed
    last = list(days)[4]
    add(warehouse, network, tmp_path, last, days[last])
    flows.bring_up_to_date(warehouse, [network])
    found = [(r["date"], r["payload_bytes_down"], r["initiator"]) for r in rows(warehouse)]
    assert found == [(FIRST_DAY, 7500, "mobile"), (last, 2100, "unknown")]
    quality.check(warehouse, [network])
    query = f"select value from quality where measure = 'no_flow_share' and date = '{last}'"
    assert ask(warehouse, query).fetchall() == [(0,)]


def test_a_connection_goes_on_over_the_end_of_a_key_period(
    warehouse, network, tmp_path, monkeypatch
):
    """The user's later packets have another pseudonym: the row has that of its day."""
    monkeypatch.setenv(SECRET_VARIABLE, "0123456789abcdef" * 4)
    monthly = network.model_copy(update={"key_period": "month"})
    shift = timedelta(days=29)  # the first day becomes March 31
    frames = [
        Frame(frame.data, frame.ts + int(shift.total_seconds()) * 1_000_000) for frame in LONG
    ]
    for day, of_day in by_day(frames).items():
        add(warehouse, monthly, tmp_path, day, of_day)
        update(warehouse, monthly)
    assert [row["payload_bytes_down"] for row in rows(warehouse)] == [9600]
    assert ask(warehouse, 'select count(distinct "user") from packets').fetchone() == (2,)


CONNECTIONS = st.lists(
    st.tuples(
        st.integers(1, 3),
        st.floats(0, 60).map(lambda hour: round(hour, 2)),
        st.lists(st.sampled_from([0.3, 1.5, 2.0, 2.2, 5]), max_size=30),
    ),
    min_size=1,
    max_size=4,
)


@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(CONNECTIONS, st.randoms(use_true_random=False))
def test_each_packet_is_in_one_connection_whenever_its_capture_comes(
    network, connections, randomness
):
    """Connections of three users, with silences about as long as the timeout, over days that are
    read in any order, some of them at once."""
    frames = []
    for number, (user, begin, gaps) in enumerate(connections):
        hours = [begin]
        for gap in gaps:
            hours.append(hours[-1] + gap)
        frames += exchanges(hours, user, 4000 + number)
    days = list(by_day(frames).items())
    randomness.shuffle(days)
    with TemporaryDirectory() as folder:
        warehouse = Warehouse(Path(folder) / "w")
        for day, of_day in days:
            add(warehouse, network, Path(folder), day, of_day)
            if randomness.random() < 0.5:
                update(warehouse, network)
        update(warehouse, network)
        [(counted,)] = ask(
            warehouse,
            "select sum(packets_up + packets_down + out_of_window_up + out_of_window_down) "
            "from flows",
        ).fetchall()
        assert counted == len(frames)
        bounds = rows(warehouse, "select start_ts, end_ts, date from flows")
        assert all(row["start_ts"].date() == row["date"] for row in bounds)
        expected = sum(1 + sum(gap > IDLE_HOURS for gap in gaps) for _, _, gaps in connections)
        assert len(bounds) == expected
