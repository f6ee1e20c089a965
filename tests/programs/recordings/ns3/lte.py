"""Eight mobiles that move through two LTE cells, with handovers, 20 ms from a server."""

import argparse
from pathlib import Path

from tests.programs.recordings.ns3.network import MOBILES, Network


def simulate(asked: argparse.Namespace, folder: Path) -> dict[str, int]:
    """Simulates; the cells share out their rates, so no mobile has one of its own."""
    network = Network(asked, folder)
    ns, draw = network.ns, network.draw
    network.default("LteRlcUm::MaxTxBufferSize", ns.UintegerValue(150_000))
    lte, epc = ns.CreateObject[ns.LteHelper](), ns.CreateObject[ns.PointToPointEpcHelper]()
    lte.SetEpcHelper(epc)
    lte.SetSchedulerType("ns3::PfFfMacScheduler")
    lte.SetSchedulerAttribute("HarqEnabled", ns.BooleanValue(asked.harq))
    for name in ("DlBandwidth", "UlBandwidth"):
        lte.SetEnbDeviceAttribute(name, ns.UintegerValue(25))

    server_address = network.join(epc.GetPgwNode(), 20, "100Mb/s")
    routing = ns.Ipv4StaticRoutingHelper()
    routing.GetStaticRouting(network.server.Get(0).GetObject[ns.Ipv4]()).AddNetworkRouteTo(
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
    ns.InternetStackHelper().Install(mobiles)
    epc.AssignUeIpv4Address(devices)
    for i in range(MOBILES):
        table = routing.GetStaticRouting(mobiles.Get(i).GetObject[ns.Ipv4]())
        table.SetDefaultRoute(epc.GetUeDefaultGatewayAddress(), 1)
    lte.SetHandoverAlgorithmType("ns3::A3RsrpHandoverAlgorithm")
    lte.Attach(devices)
    lte.AddX2Interface(cells)

    network.load(server_address, mobiles)
    network.run(mobiles)
    return {}
