"""Other stacks over other links: ns-3's TCP as the Gi interface sees it, with what became of each
packet and what the senders said of themselves.

    uv run --no-project --python 3.11 --with ns3==3.44.post0 --with zstandard \\
        python -m tests.programs.recordings.ns3 KIND FOLDER [OPTIONS]

KIND OPTIONS: lte [--no-sack] [--no-timestamps] [--no-harq] ..., or links [--queue FqCoDelQueueDisc]
[--rates 100 300] ...

lte: eight mobiles move through two LTE cells, with handovers. links: eight mobiles behind links of
their own, whose queues are of one kind. The mobiles fetch pages and files from a server. ns-3's
mobiles send no D-SACK and know no PAWS; after an RTO expiry its NewReno retransmits all that is not
acknowledged.

ns-3 3.44 made the captures of tests/data with these arguments, before which are the commands above:

    lte tests/data/ns3-lte/sack --seed 21
    lte tests/data/ns3-lte/no-sack --seed 22 --no-sack --no-timestamps --no-harq --tcp TcpNewReno
    cd tests/data/ns3-links
    links fq-codel --seed 5
    links codel-bbr --seed 8 --queue CoDelQueueDisc --tcp TcpBbr --pacing
    links pie --seed 7 --queue PieQueueDisc --size 1000p --tcp TcpNewReno
    links fifo-no-sack --seed 6 --queue PfifoFastQueueDisc --size 60p --tcp TcpNewReno --no-sack \\
        --no-timestamps
    links fast --seed 9 --seconds 8 --queue PfifoFastQueueDisc --rates 100 300 --delays 5 10 20 \\
        --files 4000 20000 --pause 2 --segments-per-ack 16
    links window --seed 12 --seconds 15 --queue PfifoFastQueueDisc --window 40000
"""
