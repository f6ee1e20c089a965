"""Another stack over another radio: ns-3's TCP over its LTE, as the Gi interface sees it, with what
became of each packet.

    uv run --no-project --python 3.11 --with ns3==3.44.post0 --with zstandard \\
        python -m tests.recordings.ns3_lte FOLDER [--no-sack] [--no-timestamps] [--no-harq] ...

Eight mobiles move through two cells, with handovers, and fetch pages and files of 0.1 to 4 MB from
a server 20 ms away. FOLDER gets gi.pcap.zst (snap length 120), frames_lost.csv.zst and
losses_unseen.csv.zst, as `tests.accuracy` reads them. ns-3's mobiles send no D-SACK and know no
PAWS; after an RTO expiry its NewReno retransmits all that is not acknowledged.
"""

import argparse
import csv
import io
import random
import struct
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import zstandard

MOBILES = 8
FILES = (100e3, 400e3, 1500e3, 4000e3)
SNAP = 120
UNDECIDED_S = 3.0
"""What was sent less than so long before the end may still be in flight."""
START = 1_401_703_200
"""2014-06-02 10:00 UTC."""
PPP, RAW = 9, 101
UE_NET = 7
"""ns-3 gives mobiles addresses in 7.0.0.0/8."""


@dataclass(frozen=True)
class Seen:
    """An IPv4 packet in a capture."""

    s: float
    ip: bytes
    length: int

    @property
    def is_tcp(self) -> bool:
        return self.ip[0] >> 4 == 4 and self.ip[9] == 6

    @property
    def downlink(self) -> bool:
        return self.is_tcp and self.ip[16] == UE_NET

    @property
    def key(self) -> bytes:
        """Identification, addresses, ports, sequence number."""
        at = (self.ip[0] & 15) * 4
        return self.ip[4:6] + self.ip[12:20] + self.ip[at : at + 8]


def simulate(asked: argparse.Namespace, folder: Path) -> None:
    """Writes the captures of the gateway, of the server and of each mobile."""
    from ns import ns

    def default(name: str, value: object) -> None:
        ns.Config.SetDefault(f"ns3::{name}", value)

    draw = random.Random(asked.seed)
    ns.RngSeedManager.SetSeed(asked.seed)
    kind = ns.TypeId.LookupByName(f"ns3::{asked.tcp}")
    default("TcpL4Protocol::SocketType", ns.TypeIdValue(kind))
    default("TcpSocketBase::Sack", ns.BooleanValue(asked.sack))
    default("TcpSocketBase::Timestamp", ns.BooleanValue(asked.timestamps))
    default("TcpSocket::SegmentSize", ns.UintegerValue(1400))
    default("TcpSocket::SndBufSize", ns.UintegerValue(2_000_000))
    default("TcpSocket::RcvBufSize", ns.UintegerValue(2_000_000))
    default("LteRlcUm::MaxTxBufferSize", ns.UintegerValue(150_000))

    lte, epc = ns.CreateObject[ns.LteHelper](), ns.CreateObject[ns.PointToPointEpcHelper]()
    lte.SetEpcHelper(epc)
    lte.SetSchedulerType("ns3::PfFfMacScheduler")
    lte.SetSchedulerAttribute("HarqEnabled", ns.BooleanValue(asked.harq))
    for name in ("DlBandwidth", "UlBandwidth"):
        lte.SetEnbDeviceAttribute(name, ns.UintegerValue(25))

    internet, server = ns.InternetStackHelper(), ns.NodeContainer()
    server.Create(1)
    internet.Install(server)
    wire = ns.PointToPointHelper()
    wire.SetDeviceAttribute("DataRate", ns.StringValue("100Mb/s"))
    wire.SetChannelAttribute("Delay", ns.StringValue("20ms"))
    ends = wire.Install(epc.GetPgwNode(), server.Get(0))
    errors = ns.CreateObject[ns.RateErrorModel]()
    errors.SetAttribute("ErrorRate", ns.DoubleValue(0.0005))
    errors.SetAttribute("ErrorUnit", ns.StringValue("ERROR_UNIT_PACKET"))
    ends.Get(0).SetAttribute("ReceiveErrorModel", ns.PointerValue(errors))
    addresses = ns.Ipv4AddressHelper()
    addresses.SetBase(ns.Ipv4Address("198.51.100.0"), ns.Ipv4Mask("255.255.255.0"))
    server_address = addresses.Assign(ends).GetAddress(1)
    routing = ns.Ipv4StaticRoutingHelper()
    routing.GetStaticRouting(server.Get(0).GetObject[ns.Ipv4]()).AddNetworkRouteTo(
        ns.Ipv4Address("7.0.0.0"), ns.Ipv4Mask("255.0.0.0"), 1
    )

    cells, mobiles = ns.NodeContainer(), ns.NodeContainer()
    cells.Create(2)
    mobiles.Create(MOBILES)
    still, where = ns.MobilityHelper(), ns.CreateObject[ns.ListPositionAllocator]()
    for x in (0, 1500):
        where.Add(ns.Vector(x, 0, 20))
    still.SetPositionAllocator(where)
    still.SetMobilityModel("ns3::ConstantPositionMobilityModel")
    still.Install(cells)
    moving = ns.MobilityHelper()
    moving.SetMobilityModel("ns3::ConstantVelocityMobilityModel")
    moving.Install(mobiles)
    for i in range(MOBILES):
        model = mobiles.Get(i).GetObject[ns.ConstantVelocityMobilityModel]()
        model.SetPosition(ns.Vector(draw.uniform(100, 1400), draw.uniform(-500, 500), 1.5))
        model.SetVelocity(ns.Vector(draw.uniform(-20, 20), 0, 0))
    lte.InstallEnbDevice(cells)
    devices = lte.InstallUeDevice(mobiles)
    internet.Install(mobiles)
    epc.AssignUeIpv4Address(devices)
    for i in range(MOBILES):
        table = routing.GetStaticRouting(mobiles.Get(i).GetObject[ns.Ipv4]())
        table.SetDefaultRoute(epc.GetUeDefaultGatewayAddress(), 1)
    lte.SetHandoverAlgorithmType("ns3::A3RsrpHandoverAlgorithm")
    lte.Attach(devices)
    lte.AddX2Interface(cells)

    site = ns.InetSocketAddress(server_address, 80).ConvertTo()
    kept = [ns.ThreeGppHttpServerHelper(site).Install(server.Get(0))]  # or Python frees them
    kept[0].Start(ns.Seconds(0.1))
    for i in range(MOBILES):
        mobile = mobiles.Get(i)
        pages = ns.ThreeGppHttpClientHelper(site).Install(mobile)
        pages.Start(ns.Seconds(1 + 3 * draw.random()))
        port = 5000 + i
        anyone = ns.InetSocketAddress(ns.Ipv4Address.GetAny(), port).ConvertTo()
        sink = ns.PacketSinkHelper("ns3::TcpSocketFactory", anyone).Install(mobile)
        sink.Start(ns.Seconds(0.5))
        kept += [pages, sink]
        address = mobile.GetObject[ns.Ipv4]().GetAddress(1, 0).GetLocal()
        there = ns.InetSocketAddress(address, port).ConvertTo()
        at = 2 + 4 * draw.random()
        while at < asked.seconds - 3:
            bulk = ns.BulkSendHelper("ns3::TcpSocketFactory", there)
            bulk.SetAttribute("MaxBytes", ns.UintegerValue(int(draw.choice(FILES))))
            sender = bulk.Install(server.Get(0))
            sender.Start(ns.Seconds(at))
            kept.append(sender)
            at += 1 + draw.expovariate(1 / 6)

    wire.EnablePcap(str(folder / "gi.pcap"), ends.Get(0), False, True)
    wire.EnablePcap(str(folder / "server.pcap"), ends.Get(1), False, True)
    internet.EnablePcapIpv4(str(folder / "mobile"), mobiles)
    ns.Simulator.Stop(ns.Seconds(asked.seconds))
    ns.Simulator.Run()
    ns.Simulator.Destroy()


def packets(path: Path) -> Iterator[Seen]:
    """The packets of one of ns-3's captures."""
    data = path.read_bytes()
    (link,) = struct.unpack_from("<I", data, 20)
    skip = 2 if link == PPP else 0
    at = 24
    while at + 16 <= len(data):
        s, us, kept, length = struct.unpack_from("<IIII", data, at)
        yield Seen(s + us / 1e6, data[at + 16 + skip : at + 16 + kept], length - skip)
        at += 16 + kept


def arrivals(seen: Iterable[Seen]) -> dict[bytes, deque[float]]:
    """When each packet was seen."""
    out: dict[bytes, deque[float]] = defaultdict(deque)
    for packet in seen:
        if packet.downlink:
            out[packet.key].append(packet.s)
    return out


def took(arrived: dict[bytes, deque[float]], packet: Seen) -> bool:
    """Whether a packet arrived after all; takes the arrival away."""
    times = arrived[packet.key]
    while times:
        if times.popleft() >= packet.s:
            return True
    return False


def write(folder: Path, captures: Path) -> None:
    """The capture at Gi and what became of its packets, from all of ns-3's captures."""
    gi = list(packets(captures / "gi.pcap"))
    at_mobiles = arrivals(p for path in captures.glob("mobile-*-i1.pcap") for p in packets(path))
    at_gi = arrivals(gi)
    end = gi[-1].s
    folder.mkdir(parents=True, exist_ok=True)
    pcap = io.BytesIO()
    pcap.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, SNAP, RAW))
    fates: list[tuple[object, ...]] = [("frame", "fate")]
    for frame, packet in enumerate(gi, 1):
        s, us = divmod(round((START + packet.s) * 1e6), 1_000_000)
        kept = packet.ip[:SNAP]
        pcap.write(struct.pack("<IIII", s, us, len(kept), packet.length) + kept)
        if packet.downlink and not took(at_mobiles, packet):
            fates.append((frame, "radio" if packet.s < end - UNDECIDED_S else "queued"))
    unseen: list[tuple[object, ...]] = [
        ("where", "direction", "ts", "ip_len", "src", "sport", "dst", "dport", "seq")
    ]
    for packet in packets(captures / "server.pcap"):
        if packet.downlink and packet.s < end - 1 and not took(at_gi, packet):
            at = (packet.ip[0] & 15) * 4
            source, target, number = struct.unpack_from(">HHI", packet.ip, at)
            ends = ".".join(map(str, packet.ip[12:16])), ".".join(map(str, packet.ip[16:20]))
            ts = f"{START + packet.s:.6f}"
            row = ("internet", "down", ts, packet.length, ends[0], source, ends[1], target, number)
            unseen.append(row)
    _compressed(folder / "gi.pcap.zst", pcap.getvalue())
    _csv(folder / "frames_lost.csv.zst", fates)
    _csv(folder / "losses_unseen.csv.zst", unseen)


def _csv(path: Path, rows: Iterable[tuple[object, ...]]) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    _compressed(path, text.getvalue().encode())


def _compressed(path: Path, data: bytes) -> None:
    path.write_bytes(zstandard.ZstdCompressor(level=19).compress(data))


def main() -> None:
    arguments = argparse.ArgumentParser(prog="ns3_lte", description=__doc__)
    arguments.add_argument("folder", type=Path, metavar="FOLDER")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--seconds", type=float, default=20)
    arguments.add_argument("--tcp", default="TcpCubic", help="ns-3's name, as TcpNewReno")
    for name in ("sack", "timestamps", "harq"):
        arguments.add_argument(f"--{name}", action=argparse.BooleanOptionalAction, default=True)
    asked = arguments.parse_args()
    with TemporaryDirectory() as captures:
        simulate(asked, Path(captures))
        write(asked.folder, Path(captures))


if __name__ == "__main__":
    main()
