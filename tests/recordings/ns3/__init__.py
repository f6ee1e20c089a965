"""Other stacks over other links: ns-3's TCP as the Gi interface sees it, with what became of each
packet and what the senders said of themselves.

    uv run --no-project --python 3.11 --with ns3==3.44.post0 --with zstandard \\
        python -m tests.recordings.ns3 lte FOLDER [--no-sack] [--no-timestamps] [--no-harq] ...
        python -m tests.recordings.ns3 links FOLDER [--queue FqCoDelQueueDisc] [--rates 100 300] ...

lte: eight mobiles move through two LTE cells, with handovers. links: eight mobiles behind links of
their own, whose queues are of one kind. The mobiles fetch pages and files from a server. ns-3's
mobiles send no D-SACK and know no PAWS; after an RTO expiry its NewReno retransmits all that is not
acknowledged.
"""
