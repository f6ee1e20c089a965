"""What an option changes: synthetic transfers whose true effects are known."""

import math

import numpy as np
import pytest

from spark_jobs.estimators.option_effects import effects


def cells(transfers: int, users: int, effect: dict[str, float], sack_follows_mss: float) -> list:
    """Transfers of users who keep their options. log goodput is the sum of the effects of what
    the user has, a user's own channel and noise; with probability `sack_follows_mss` a user has
    SACK just where the MSS is high."""
    random = np.random.default_rng(7)
    rows = []
    for user in range(users):
        mss = random.choice(["low", "high"])
        follows = random.random() < sack_follows_mss
        sack = ("yes" if mss == "high" else "no") if follows else random.choice(["yes", "no"])
        has = {"mss": mss, "sack": sack, "timestamps": random.choice(["yes", "no"]),
               "window": random.choice(["low", "med", "high"])}  # fmt: skip
        channel = random.normal(0, 0.2)
        for _ in range(transfers):
            log = 10 + channel + random.normal(0, 0.1)
            log += sum(effect.get(f"{option} {value}", 0) for option, value in has.items())
            rows.append(
                {"network": "n", "hour": int(random.integers(2)), "size_class": 15, **has,
                 "user_group": user, "flows": 1, "log_goodput_sum": log}
            )  # fmt: skip
    return rows


def of(rows: list, name: str):
    return next(effect for effect in effects(rows) if effect.contrast.name == name)


def test_confounded_effect_is_told_from_its_companion():
    rows = cells(20, 400, {"mss high": math.log(1.5)}, sack_follows_mss=0.8)
    sack = of(rows, "SACK against none")
    assert sack.raw.estimate > 0.2
    assert sack.adjusted.low < 0 < sack.adjusted.high
    mss = of(rows, "MSS high against low")
    assert mss.adjusted.low < 0.5 < mss.adjusted.high
    assert mss.adjusted.supported


def test_option_that_always_comes_with_another_is_null():
    rows = cells(5, 60, {"mss high": 0.3}, sack_follows_mss=1)
    sack = of(rows, "SACK against none")
    assert sack.raw.estimate is not None
    assert sack.adjusted.estimate is None


def test_intervals_allow_for_users_being_alike():
    """Ten times as many transfers of the same users tell little more of users: the channel, not
    the noise, makes the interval."""
    few, many = (
        of(cells(n, 80, {}, sack_follows_mss=0), "SACK against none").adjusted for n in (10, 100)
    )
    assert many.high - many.low > 0.7 * (few.high - few.low)


def test_sums_of_cells_give_what_single_transfers_give():
    rows = cells(20, 60, {"mss high": 0.2}, sack_follows_mss=0.5)
    added: dict[tuple, dict] = {}
    for row in rows:
        key = tuple(v for k, v in row.items() if k not in ("flows", "log_goodput_sum"))
        cell = added.setdefault(key, {**row, "flows": 0, "log_goodput_sum": 0.0})
        cell["flows"] += 1
        cell["log_goodput_sum"] += row["log_goodput_sum"]
    assert len(added) < len(rows)
    for one, other in zip(effects(rows), effects(list(added.values())), strict=True):
        assert one.transfers == other.transfers
        assert one.adjusted.estimate == pytest.approx(other.adjusted.estimate)
        widths = [found.adjusted.high - found.adjusted.low for found in (one, other)]
        assert widths[1] == pytest.approx(widths[0], rel=0.05)


def test_few_users_give_no_interval():
    effect = of(cells(50, 8, {}, sack_follows_mss=0), "SACK against none")
    assert effect.raw.estimate is not None
    assert effect.raw.low is None


def test_nothing_to_compare_is_null():
    assert all(effect.raw.estimate is None for effect in effects([]))
