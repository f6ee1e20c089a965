"""Eight mobiles behind links of their own: fixed rates, and queues of one kind."""

import argparse
from pathlib import Path

from tests.programs.recordings.ns3.network import MOBILES, Network


def simulate(asked: argparse.Namespace, folder: Path) -> dict[str, int]:
    """Simulates; returns the rate of each mobile's link, by its address."""
    network = Network(asked, folder)
    ns, draw = network.ns, network.draw
    gateway, mobiles = ns.NodeContainer(), ns.NodeContainer()
    gateway.Create(1)
    mobiles.Create(MOBILES)
    for nodes in (gateway, mobiles):
        ns.InternetStackHelper().Install(nodes)
    server_address = network.join(gateway.Get(0), 15, "2000Mb/s")
    addresses, rates = ns.Ipv4AddressHelper(), {}
    for i in range(MOBILES):
        rate = draw.choice(asked.rates)
        link = ns.PointToPointHelper()
        link.SetDeviceAttribute("DataRate", ns.StringValue(f"{rate}Mb/s"))
        link.SetChannelAttribute("Delay", ns.StringValue(f"{draw.choice(asked.delays)}ms"))
        link.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", ns.StringValue("2p"))
        devices = link.Install(gateway.Get(0), mobiles.Get(i))
        control = ns.TrafficControlHelper()
        options = ["MaxSize", ns.StringValue(asked.size)] if asked.size else []
        control.SetRootQueueDisc(f"ns3::{asked.queue}", *options)
        control.Install(devices.Get(0))
        addresses.SetBase(ns.Ipv4Address(f"7.0.{i}.0"), ns.Ipv4Mask("255.255.255.0"))
        addresses.Assign(devices)
        rates[f"7.0.{i}.2"] = int(rate * 1e6)
    ns.Ipv4GlobalRoutingHelper.PopulateRoutingTables()
    network.load(server_address, mobiles)
    network.run(mobiles)
    return rates
