"""Losses against the lab's ground truth: no worse than what was reached (`make accuracy`)."""

import pytest

from tests.accuracy.__main__ import SHIPPED, shipped

FLOORS = {
    # precision, recall, recall of what the observation decides
    "aa-gprs-peak": (0.995, 0.994, 0.997),
    "aa-gprs-offpeak": (0.996, 0.996, 0.998),
    "bb-gprs-peak": (0.990, 0.991, 0.996),
    "cc-dialup-peak": (0.992, 0.991, 0.992),
}


@pytest.fixture(scope="module", params=SHIPPED)
def accuracy(request, networks):
    return request.param, shipped(request.param, networks["aa-gprs"])


def test_access_losses_by_frame(accuracy):
    lab, a = accuracy
    precision, recall, decided = FLOORS[lab]
    assert a.precision >= precision
    assert a.recall >= recall
    assert a.decided_recall >= decided


def test_loss_ratio_is_unbiased(accuracy):
    _, a = accuracy
    assert a.expected == pytest.approx(a.lost, rel=0.02)


def test_simple_rule_is_beaten(accuracy):
    _, a = accuracy
    assert abs(a.expected - a.lost) < abs(a.simple - a.lost) / 4
    assert a.precision > a.simple_hits / a.simple


def test_internet_losses_by_event(accuracy):
    _, a = accuracy
    assert a.unseen.precision >= 0.99
    assert a.unseen.recall >= 0.99
    assert a.unseen.inferred == pytest.approx(a.unseen.lost, rel=0.02)
    assert a.unseen.expected == pytest.approx(a.unseen.lost, rel=0.02)
