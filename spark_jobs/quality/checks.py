"""The checks of a day: each has a measured value, the bounds of the value, and a finding."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from schemas import MAX_OPTIONS_CUT_SHARE
from spark_jobs.settings.networks import QualityLimits

PEAK_FLOWS = "peak_flows"
MIN_RADIO_RTT_S = 0.003
"""Minimum RTT over a radio link.

The target for NR is 4 ms for each direction (3GPP TR 38.913, 7.5).
"""

MAX_HOST_TTLS, MAX_HOST_PORTS = 4, 2000
"""Maximum numbers of TTLs, and of ports that open connections in an hour, of one mobile.

A mobile that tethers others has four TTLs: 64 and 128, and one less of each.
"""


@dataclass(frozen=True)
class Check:
    """One row of quality: a measured value, and the bounds that it must lie between."""

    measure: str
    value: float | None
    lowest: float | None
    highest: float | None
    finding: str

    @property
    def passed(self) -> bool:
        """Return whether the day passes. A value that could not be measured passes."""
        return self.value is None or (
            (self.lowest is None or self.value >= self.lowest)
            and (self.highest is None or self.value <= self.highest)
        )


Row = Mapping[str, Any]
"""The row of quality.sql for a day, with the limit `volume_fewest_days`."""


def share(*parts: str, of: str) -> Callable[[Row], float | None]:
    """Return a function of a row: the sum of some columns as a share of another column.

    The share is None if one of them was not measured, or if the whole is 0.
    """

    def value(row: Row) -> float | None:
        measured = [row[part] for part in parts]
        return float(sum(measured)) / float(row[of]) if row[of] and None not in measured else None

    return value


def volume_ratio(row: Row) -> float | None:
    """Return the volume by the usual volume; None if there are too few earlier days."""
    is_known = row["earlier_days"] >= row["volume_fewest_days"]
    return share("volume", of="usual_volume")(row) if is_known else None


def no_flow_share(row: Row) -> float | None:
    """Return the share of TCP packets that are in no connection, or in two; None without packets.

    The packets of connections that began on earlier days are in the connections of those days.
    """
    packets = row["tcp_packets"]
    return abs(packets - row["tcp_in_flows"]) / packets if packets else None


def unread_finding(row: Row, _: float | None) -> str:
    """Return the names of the captures that were not read to their end, in words."""
    return f"captures not read to their end: {', '.join(row['unread_captures']) or 'none'}"


def clock_finding(row: Row, _: float | None) -> str:
    """Return how the monitor's clock stepped, in words."""
    return (
        f"the monitor's clock stepped {row['clock_steps'] or 0} times, back by "
        f"{row['clock_back_s'] or 0:.3f} s and forward by {row['clock_forward_s'] or 0:.3f} s in "
        "all: times across a step are not known; "
        "let NTP slew the clock, so that it steps seldom"
    )


def copied_finding(row: Row, copied: float | None) -> str:
    """Return the share of packets that are in two captures, and what to do about it, in words."""
    if not copied:
        return f"{_percent(copied)} of the packets are in two captures"
    one, other = row["copied_captures"]
    return (
        f"{_percent(copied)} of the packets are in two captures, such as {one} and {other}: if one "
        "is a part of the other, remove it (giscope purge --capture); if two mirrored ports were "
        "written to a file each, merge the files into one, in which duplicates are found"
    )


def options_finding(_: Row, cut: float | None) -> str:
    """Return the share of cut options in words, and advice if it is too large."""
    advice = (
        ": raise the snap length; 96 bytes hold all headers of IPv4 over Ethernet, 128 those of "
        "IPv6 or behind VLAN tags, 192 those in GTP-U"
    )
    is_too_large = cut is not None and cut > MAX_OPTIONS_CUT_SHARE
    return (
        f"{_percent(cut)} of the TCP packets have options that the capture cut"
        f"{advice if is_too_large else ''}"
    )


def ipv6_finding(row: Row, share_of_ipv6: float | None) -> str:
    """Return the share of IPv6 in words, and whether mobiles with both families are two users."""
    is_both = share_of_ipv6 is not None and 0 < share_of_ipv6 < 1
    return f"{_percent(share_of_ipv6)} of the packets are IPv6" + (
        ": without RADIUS accounting, the IPv4 address and the IPv6 prefix of a mobile are two "
        "users, each with a part of the link's traffic"
        if is_both and not row["leases"]
        else ""
    )


def peak_finding(row: Row, flows: float | None) -> str:
    """Return how many connections are in the peak hours, and if none is, which hours have some."""
    peak, off_peak = row["default_hours"]
    if peak is None and row["peak_from"] is None:
        return "too few earlier days to find the busiest hours: the figures are of all hours"
    text = f"{flows} connections in the peak hours, {row['peak_from']} to {row['peak_until']} h"
    if row["peak_from"] is None:
        text = "no connections in the default peak hours, {} to {} h, ".format(*peak)
        text += "or off-peak hours, {} to {} h, so the figures are of all hours".format(*off_peak)
    if flows or row["first_hour"] is None:
        return text
    return (
        f"{text}: the day has connections from {row['first_hour']} to {row['last_hour'] + 1} h, "
        f"most at {row['busiest_hour']} h (local time): set peak_hours and off_peak_hours in the "
        "networks file"
    )


def volume_finding(row: Row, ratio: float | None) -> str:
    """Return how the volume compares with that of earlier days, in words."""
    if ratio is None:
        return "volume: too few earlier days of the same weekday to compare with"
    return (
        f"volume {ratio:.2f} times the median of {row['earlier_days']} earlier days of the same "
        "weekday"
    )


def _percent(value: float | None) -> str:
    return "unknown share" if value is None else f"{value:.2%}"


def at_most(limit: float) -> tuple[None, float]:
    """Return the bounds of a value that may be at most the limit."""
    return None, limit


def at_least(limit: float) -> tuple[float, None]:
    """Return the bounds of a value that must be at least the limit."""
    return limit, None


def within_factor(limit: float) -> tuple[float, float]:
    """Return the bounds of a ratio that may differ from 1 by a factor, up or down."""
    return 1 / limit, limit


Definition = tuple[
    str,
    Callable[[Row], float | None],
    Callable[[float], tuple[float | None, float | None]] | None,
    str | Callable[[Row, float | None], str],
]
"""A check's measure, value, condition and finding.

The condition is about the limit in the networks file that has the measure's name; None: the check
only reports. A finding's text has the value as {share}, and values of the row by their names.
"""
CHECKS: tuple[Definition, ...] = (
    ("unread_captures", lambda row: len(row["unread_captures"]), at_most, unread_finding),
    ("skipped_share", share("skipped", of="frames"), at_most,
     "{share} of the frames could not be read"),
    ("duplicate_share", share("duplicates", of="frames"), None,
     "{share} of the frames are duplicates of earlier ones, and do not count"),
    ("copied_share", share("copied", of="numbered"), at_most, copied_finding),
    ("clock_steps", itemgetter("clock_steps"), None, clock_finding),
    ("acked_unseen_share", share("acked_unseen_bytes", of="acked_bytes"), at_most,
     "{share} of the bytes that mobiles acknowledged were never seen: the capture dropped them"),
    ("one_way_share", share("flows_up_only", "flows_down_only", of="flows"), at_most,
     "{share} of the connections were seen in one direction only ({flows_up_only} up, "
     "{flows_down_only} down): the other direction is not mirrored, or takes another path"),
    ("no_flow_share", no_flow_share, None,
     "{share} of the TCP packets are in no connection, or in two ({tcp_packets} packets, "
     "{tcp_in_flows} in connections)"),
    ("losses_unknown_share", share("flows_losses_unknown", of="flows_with_data"), None,
     "{share} of the connections with data to the mobile were not seen well enough to estimate "
     "their losses: they are left out"),
    ("sending_unknown_share", share("flows_sending_unknown", of="flows_with_data"), None,
     "{share} of the connections with data to the mobile were not seen well enough to know what "
     "the server did"),
    ("split_share", share("flows_split", of="flows_with_data"), None,
     "{share} of the connections with data to the mobile are split by a performance-enhancing "
     "proxy at Gi: their access side is not known"),
    ("near_share", share("flows_too_near", of="flows_timed"), None,
     "{share} of the connections have an RTT on the access side below "
     f"{1000 * MIN_RADIO_RTT_S:g} ms, less than over any radio link: a proxy or a host at Gi "
     "answers"),
    ("merged_share", share("merged_segments", of="segments"), None,
     "{share} of the segments were merged into larger packets (LRO, GRO, TSO)"),
    ("options_cut_share", share("options_cut", of="tcp_packets"), None, options_finding),
    ("quic_cut_share", share("quic_cut", of="quic_begun"), None,
     "{share} of the QUIC connections lack the set-up delay, the set-up class or zero_rtt, as the "
     "capture cut their first datagrams: whole ones, of 1500 bytes, show all three"),
    ("not_tcp_share", share("not_tcp_bytes", of="ip_bytes"), None,
     "{share} of the bytes were not TCP (QUIC, for example): they count as load of the link"),
    ("tunnel_share", share("tunnel_bytes", of="ip_bytes"), None,
     "{share} of the bytes were in tunnels that are not opened (IP in IP, GRE, ESP, L2TP)"),
    ("ipv6_share", share("ipv6_packets", of="packets"), None, ipv6_finding),
    ("shared_share", share("opened_by_shared", of="opened"), None,
     "{share} of the connections are opened by users ({shared_users}) who use more than "
     f"{MAX_HOST_TTLS} TTLs, or {MAX_HOST_PORTS:,} ports in an hour, as many hosts do behind a NAT "
     "between the mobiles and the monitor"),
    ("vlan_tuples", itemgetter("vlan_tuples"), None,
     "{vlan_tuples} connections have the same addresses and ports in two VLANs at the same time, "
     "as those of two subscribers with one private address, who count as two users"),
    ("without_syn_share", share("flows_without_syn", of="flows"), at_most,
     "{share} of the connections have no SYN"),
    (PEAK_FLOWS, itemgetter("peak_flows"), at_least, peak_finding),
    ("volume_ratio", volume_ratio, within_factor, volume_finding),
)  # fmt: skip


def evaluate(measured: Row, limits: QualityLimits, sets_peak_hours: bool = True) -> list[Check]:
    """Return the checks of a day. measured: the row of quality.sql.

    The number of connections in the peak hours only informs, unless the file sets it or the hours.
    """
    row = {**measured, "volume_fewest_days": limits.volume_fewest_days}
    checks = []
    for measure, value_of, condition, finding in CHECKS:
        if measure == PEAK_FLOWS and not sets_peak_hours:
            condition = condition if measure in limits.model_fields_set else None
        value = value_of(row)
        lowest, highest = condition(getattr(limits, measure)) if condition else (None, None)
        text = (
            finding.format(share=_percent(value), **row)
            if isinstance(finding, str)
            else finding(row, value)
        )
        checks.append(Check(measure, value, lowest, highest, text))
    return checks
