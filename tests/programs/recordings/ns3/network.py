"""What all simulations have in common: TCP's settings, the server and its wire, the traffic."""

import argparse
import random
from pathlib import Path
from typing import Any

from tests.programs.recordings.ns3.pack import START

MOBILES = 8


class Network:
    """A server, the gateway that the wire joins it to, and what they need until the end."""

    def __init__(self, asked: argparse.Namespace, folder: Path) -> None:
        from ns import ns

        self.ns, self.asked, self.folder = ns, asked, folder
        self.draw = random.Random(asked.seed)
        self.kept: list[Any] = []  # or Python frees them
        ns.RngSeedManager.SetSeed(asked.seed)
        kind = ns.TypeId.LookupByName(f"ns3::{asked.tcp}")
        self.default("TcpL4Protocol::SocketType", ns.TypeIdValue(kind))
        self.default("TcpSocketBase::Sack", ns.BooleanValue(asked.sack))
        self.default("TcpSocketBase::Timestamp", ns.BooleanValue(asked.timestamps))
        self.default("TcpSocketState::EnablePacing", ns.BooleanValue(asked.pacing))
        self.default("TcpSocket::SegmentSize", ns.UintegerValue(1400))
        self.default("TcpSocket::InitialCwnd", ns.UintegerValue(10))
        self.default("TcpSocket::DelAckCount", ns.UintegerValue(asked.segments_per_ack))
        self.default("TcpSocket::SndBufSize", ns.UintegerValue(asked.buffer))
        self.default("TcpSocket::RcvBufSize", ns.UintegerValue(asked.window))

    def default(self, name: str, value: object) -> None:
        """Sets the default of an attribute."""
        self.ns.Config.SetDefault(f"ns3::{name}", value)

    def join(self, gateway: Any, delay_ms: float, rate: str) -> Any:
        """Joins a new server to the gateway; returns its address. The wire loses some packets."""
        ns = self.ns
        internet, self.server = ns.InternetStackHelper(), ns.NodeContainer()
        self.server.Create(1)
        internet.Install(self.server)
        self.wire = ns.PointToPointHelper()
        self.wire.SetDeviceAttribute("DataRate", ns.StringValue(rate))
        self.wire.SetChannelAttribute("Delay", ns.StringValue(f"{delay_ms}ms"))
        self.ends = self.wire.Install(gateway, self.server.Get(0))
        errors = ns.CreateObject[ns.RateErrorModel]()
        errors.SetAttribute("ErrorRate", ns.DoubleValue(self.asked.internet_loss))
        errors.SetAttribute("ErrorUnit", ns.StringValue("ERROR_UNIT_PACKET"))
        self.ends.Get(0).SetAttribute("ReceiveErrorModel", ns.PointerValue(errors))
        addresses = ns.Ipv4AddressHelper()
        addresses.SetBase(ns.Ipv4Address("198.51.100.0"), ns.Ipv4Mask("255.255.255.0"))
        return addresses.Assign(self.ends).GetAddress(1)

    def load(self, server_address: Any, mobiles: Any) -> None:
        """Lets each mobile fetch pages, and the server send files to it."""
        ns, draw = self.ns, self.draw
        site = ns.InetSocketAddress(server_address, 80).ConvertTo()
        self.kept.append(ns.ThreeGppHttpServerHelper(site).Install(self.server.Get(0)))
        self.kept[-1].Start(ns.Seconds(0.1))
        for i in range(mobiles.GetN()):
            mobile = mobiles.Get(i)
            pages = ns.ThreeGppHttpClientHelper(site).Install(mobile)
            pages.Start(ns.Seconds(1 + 3 * draw.random()))
            port = 5000 + i
            anyone = ns.InetSocketAddress(ns.Ipv4Address.GetAny(), port).ConvertTo()
            sink = ns.PacketSinkHelper("ns3::TcpSocketFactory", anyone).Install(mobile)
            sink.Start(ns.Seconds(0.5))
            self.kept += [pages, sink]
            address = mobile.GetObject[ns.Ipv4]().GetAddress(1, 0).GetLocal()
            there = ns.InetSocketAddress(address, port).ConvertTo()
            at = 2 + 4 * draw.random()
            while at < self.asked.seconds - 3:
                bulk = ns.BulkSendHelper("ns3::TcpSocketFactory", there)
                size = 1000 * draw.choice(self.asked.files)
                bulk.SetAttribute("MaxBytes", ns.UintegerValue(size))
                sender = bulk.Install(self.server.Get(0))
                sender.Start(ns.Seconds(at))
                self.kept.append(sender)
                at += 1 + draw.expovariate(1 / self.asked.pause)

    def run(self, mobiles: Any) -> None:
        """Simulates; writes the captures of gateway, server and mobiles, and the sender's log."""
        ns, folder = self.ns, self.folder
        ns.cppyy.cppdef(Path(__file__).with_name("sender_log.cc").read_text())
        log = ns.cppyy.gbl.giscope.Log(self.server.Get(0), str(folder / "sender.csv"), START)
        self.wire.EnablePcap(str(folder / "gi.pcap"), self.ends.Get(0), False, True)
        self.wire.EnablePcap(str(folder / "server.pcap"), self.ends.Get(1), False, True)
        ns.InternetStackHelper().EnablePcapIpv4(str(folder / "mobile"), mobiles)
        ns.Simulator.Stop(ns.Seconds(self.asked.seconds))
        ns.Simulator.Run()
        log.end()
        ns.Simulator.Destroy()
