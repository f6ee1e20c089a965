"""giscope: captures to packets, packets to flows, flows to marts, marts to a report."""
