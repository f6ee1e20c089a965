"""Losses against ground truth: no worse than the accuracy reached before (`make accuracy`)."""

from dataclasses import dataclass

import pytest

from tests.programs.accuracy.__main__ import SHIPPED
from tests.programs.accuracy.lab import NETWORK, measure


@dataclass(frozen=True)
class Reached:
    """On the access side: precision, recall, recall of the losses that the observation decides, and
    the relative error of the loss ratio. On the Internet side (unseen_...): precision, recall, and
    the relative error of their number."""

    precision: float
    recall: float
    decided: float
    ratio: float = 0.02
    unseen_precision: float = 0.99
    unseen_recall: float = 0.99
    unseen_ratio: float = 0.02


REACHED = {
    "aa-gprs-peak": Reached(0.996, 0.995, 0.996),
    "aa-gprs-offpeak": Reached(0.997, 0.995, 0.997),
    "bb-gprs-peak": Reached(0.992, 0.991, 0.992),
    "cc-dialup-peak": Reached(0.992, 0.990, 0.991),
    # Ten losses and twelve on the Internet side.
    "ns3-lte-sack": Reached(0.995, 0.995, 0.995, 0.02, 0.75, 0.9, 0.4),
    "ns3-lte-no-sack": Reached(0.97, 0.97, 0.97, 0.03, 0.75, 0.9, 0.4),
    "ns3-fq-codel": Reached(0.99, 0.99, 0.99, 0.02, 0.75, 0.9, 0.4),
    "ns3-codel-bbr": Reached(0.99, 0.99, 0.99, 0.02, 0.75, 0.9, 0.4),
    "ns3-pie": Reached(0.99, 0.99, 0.99, 0.02, 0.75, 0.9, 0.4),
    "ns3-fifo-no-sack": Reached(0.98, 0.99, 0.99, 0.02, 0.75, 0.6, 0.4),
    "ns3-fast": Reached(0.99, 0.99, 0.99, 0.02, 0.75, 0.9, 0.4),
}


@pytest.fixture(scope="module", params=SHIPPED)
def accuracy(request):
    return REACHED[request.param], measure(SHIPPED[request.param], NETWORK)


def test_access_losses_agree_frame_by_frame(accuracy):
    reached, a = accuracy
    assert a.precision >= reached.precision
    assert a.recall >= reached.recall
    assert a.decided_recall >= reached.decided


def test_loss_ratio_is_unbiased(accuracy):
    reached, a = accuracy
    assert a.expected == pytest.approx(a.lost, rel=reached.ratio)


def test_estimates_are_better_than_the_simple_rule(accuracy):
    _, a = accuracy
    if a.simple_hits > 0.95 * a.simple:
        pytest.skip("hardly a retransmission was spurious, so the simple rule is right")
    assert abs(a.expected - a.lost) < abs(a.simple - a.lost) / 4
    assert a.precision > a.simple_hits / a.simple


def test_internet_losses_agree_event_by_event(accuracy):
    reached, a = accuracy
    assert a.unseen.precision >= reached.unseen_precision
    assert a.unseen.recall >= reached.unseen_recall
    assert a.unseen.inferred == pytest.approx(a.unseen.lost, rel=reached.unseen_ratio)
    assert a.unseen.expected == pytest.approx(a.unseen.lost, rel=reached.unseen_ratio)
