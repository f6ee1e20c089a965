"""Effects of options on goodput: synthetic transfers whose true effects are known."""

import math

import numpy as np
import pytest

from spark_jobs.figures.table3_clusters.option_effects import effects


def synthetic_transfers(
    transfers: int,
    users: int,
    effect: dict[str, float],
    sack_follows_mss: float = 0,
    fast_have_sack: float = 0.5,
    seed: int = 7,
) -> list:
    """Make transfers of users who keep their options. log goodput is the sum of the effects of what
    the user has, the log rate of the user's channel, which is 24 or 48 kbit/s, something of the
    user's own and noise; with probability `sack_follows_mss` a user has SACK just where the MSS is
    high, else fast users have it with probability `fast_have_sack` and slow ones with the rest."""
    random = np.random.default_rng(seed)
    rows = []
    for user in range(users):
        mss = random.choice(["low", "high"])
        follows = random.random() < sack_follows_mss
        fast = random.random() < 0.5
        likely = fast_have_sack if fast else 1 - fast_have_sack
        sack = mss == "high" if follows else random.random() < likely
        sack = "yes" if sack else "no"
        rate_bin = round(100 * math.log(48_000 if fast else 24_000))
        has = {"mss": mss, "sack": sack, "timestamps": random.choice(["yes", "no"]),
               "window": random.choice(["low", "med", "high"])}  # fmt: skip
        own = random.normal(0, 0.1)
        for _ in range(transfers):
            log = rate_bin / 100 + own + random.normal(0, 0.1)
            log += sum(effect.get(f"{option} {value}", 0) for option, value in has.items())
            rows.append(
                {"network": "n", "hour": int(random.integers(2)), "size_class": 15, **has,
                 "user_group": user, "rate_bin": rate_bin, "flows": 1, "log_goodput_sum": log}
            )  # fmt: skip
    return rows


def effect_named(rows: list, name: str):
    return next(effect for effect in effects(rows) if effect.contrast.name == name)


def test_confounded_effect_is_distinguished_from_that_of_the_other_option():
    rows = synthetic_transfers(20, 150, {"mss high": math.log(1.5)}, sack_follows_mss=0.8)
    sack = effect_named(rows, "SACK against none")
    assert sack.raw.estimate > 0.2
    assert sack.adjusted.low < 0 < sack.adjusted.high
    mss = effect_named(rows, "MSS high against low")
    assert mss.adjusted.low < 0.5 < mss.adjusted.high
    assert mss.adjusted.supported


def test_option_that_always_comes_with_another_is_null():
    rows = synthetic_transfers(5, 60, {"mss high": 0.3}, sack_follows_mss=1)
    sack = effect_named(rows, "SACK against none")
    assert sack.raw.estimate is not None
    assert sack.adjusted.estimate is None


def test_intervals_allow_for_users_being_alike():
    """Ten times as many transfers of the same users add little information on users: the channel,
    not the noise, makes the interval."""
    few, many = (
        effect_named(
            synthetic_transfers(n, 80, {}, sack_follows_mss=0), "SACK against none"
        ).adjusted
        for n in (10, 100)
    )
    assert many.high - many.low > 0.7 * (few.high - few.low)


def test_groups_give_the_effects_of_their_transfers():
    rows = synthetic_transfers(20, 60, {"mss high": 0.2}, sack_follows_mss=0.5)
    added: dict[tuple, dict] = {}
    for row in rows:
        key = tuple(v for k, v in row.items() if k not in ("flows", "log_goodput_sum"))
        group = added.setdefault(key, {**row, "flows": 0, "log_goodput_sum": 0.0})
        group["flows"] += 1
        group["log_goodput_sum"] += row["log_goodput_sum"]
    assert len(added) < len(rows)
    for one, other in zip(effects(rows), effects(list(added.values())), strict=True):
        assert one.sides == other.sides
        assert one.adjusted.estimate == pytest.approx(other.adjusted.estimate)
        widths = [found.adjusted.high - found.adjusted.low for found in (one, other)]
        assert widths[1] == pytest.approx(widths[0])


def test_effect_of_the_channel_rate_is_distinguished_from_the_options():
    """Fast users have SACK four times as often as slow ones; SACK itself changes nothing."""
    sack = effect_named(synthetic_transfers(20, 80, {}, fast_have_sack=0.8), "SACK against none")
    assert sack.raw.low > 0.1
    assert sack.adjusted.low < 0 < sack.adjusted.high
    assert sack.adjusted.high - sack.adjusted.low < 0.15


def test_transfers_of_unknown_channel_rate_are_left_out_and_counted():
    rows = synthetic_transfers(10, 40, {})
    unknown = [row | {"rate_bin": None} if row["user_group"] < 15 else row for row in rows]
    sack = effect_named(unknown, "SACK against none")
    assert sum(side.transfers for side in sack.sides) == 400
    assert sum(side.transfers for side in sack.adjusted_sides) == 250
    assert sum(side.users for side in sack.adjusted_sides) == 25
    known = effect_named([row for row in rows if row["user_group"] >= 15], "SACK against none")
    assert sack.adjusted.estimate == pytest.approx(known.adjusted.estimate)


def test_windows_effect_is_not_adjusted_for_the_rate_that_small_windows_hide():
    """A transfer takes the rate of its channel unless its window is low: then 10 kbit/s."""
    rows = synthetic_transfers(10, 60, {})
    for row in rows:
        if row["window"] == "low":
            row["log_goodput_sum"] += math.log(10_000) - row["rate_bin"] / 100
            row["rate_bin"] = None
    window = effect_named(rows, "window high against low")
    assert window.adjusted_sides == window.sides
    assert window.adjusted.low > 1


def test_share_of_an_option_in_a_fast_network_is_not_taken_for_its_effect():
    """In either network SACK loses a tenth; the fast network has it nine times as often."""
    random = np.random.default_rng(2)
    rows = []
    for network, rate, with_sack in (("slow", 24_000, 4), ("fast", 240_000, 36)):
        for user in range(40):
            sack = user < with_sack
            log = math.log(rate) + math.log(0.9) * sack + random.normal(0, 0.02)
            rows += [
                {"network": network, "hour": 1, "size_class": 15, "mss": "high", "window": "low",
                 "timestamps": "no", "sack": "yes" if sack else "no", "user_group": user,
                 "rate_bin": None, "flows": 1, "log_goodput_sum": log}
            ]  # fmt: skip
    effect = effect_named(rows, "SACK against none")
    assert effect.raw.low < -0.1 < effect.raw.high < 0
    assert effect.adjusted.estimate is None


def test_size_class_that_only_one_user_has_is_left_out():
    rows = [
        row | {"size_class": 20} if row["user_group"] == 3 else row
        for row in synthetic_transfers(10, 40, {"sack yes": 0.2})
    ]
    sack = effect_named(rows, "SACK against none")
    assert sack.adjusted.low < math.expm1(0.2) < sack.adjusted.high
    assert sum(side.users for side in sack.adjusted_sides) == 39


@pytest.mark.slow
@pytest.mark.parametrize("users", [14, 30, 90])
def test_intervals_contain_the_true_effect_as_often_as_they_claim(users):
    """95 %, over 200 seeds; by chance between 92 and 98 %. Of few users a little more, as the
    jackknife is not too narrow."""
    contained = []
    for seed in range(200):
        rows = synthetic_transfers(6, users, {"sack yes": 0.1}, fast_have_sack=0.7, seed=seed)
        found = effect_named(rows, "SACK against none").adjusted
        if found.low is not None:
            contained.append(found.low <= math.expm1(0.1) <= found.high)
    assert len(contained) > 60
    assert 0.92 <= np.mean(contained) <= (0.98 if users > 20 else 1)


def test_effects_of_few_users_are_null():
    effect = effect_named(synthetic_transfers(50, 8, {}), "SACK against none")
    assert effect.raw.estimate is effect.raw.low is None
    assert effect.adjusted.estimate is effect.adjusted.low is None


def test_effects_without_transfers_are_null():
    assert all(effect.raw.estimate is None for effect in effects([]))
