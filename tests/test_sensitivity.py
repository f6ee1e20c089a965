"""The study of the loss model's constants (`python -m tests.programs.accuracy --sensitivity`)."""

import pytest
from conftest import ROOT

from tests.programs.accuracy import sensitivity
from tests.programs.accuracy.lab import Counts
from tests.programs.accuracy.sensitivity import MODEL, Variation, chosen, constants, pooled, varied

SOURCE = "LATE, LATEST = 0.7, 4.0\nWAYS = range(3)\nNAME = 'x'\nFEW = 3\n"


@pytest.mark.parametrize(
    ("name", "factor", "line"),
    [
        ("LATEST", 2, "LATE, LATEST = 0.7, 8.0"),
        ("FEW", 0.5, "FEW = 1"),
    ],
)
def test_one_constant_is_replaced_in_the_source(name, factor, line):
    after, before = varied(SOURCE, name, factor).splitlines(), SOURCE.splitlines()
    assert [new for new, old in zip(after, before, strict=True) if new != old] == [line]


def test_every_constant_of_the_model_can_be_varied():
    assert {"costs.LOSS", "search.WIDE_BEAM", "path.BUSY_MARGIN"} <= set(constants())
    for variation in chosen([]):
        module, name = variation.constant.split(".")
        source = (ROOT / MODEL / f"{module}.py").read_text()
        assert varied(source, name, variation.factor) != source


def test_constants_are_chosen_by_module_or_name(capsys):
    assert chosen(["LOSS"]) == [Variation("costs.LOSS", 0.5), Variation("costs.LOSS", 2.0)]
    assert {v.constant.split(".")[0] for v in chosen(["queue"])} == {"queue"}
    with pytest.raises(SystemExit, match="2"):
        chosen(["LOSSES"])
    assert capsys.readouterr().err == "accuracy: LOSSES: no such constant\n"


def test_modules_that_import_a_constant_are_compiled_anew(tmp_path):
    imports = {
        "costs": "",
        "queue": "import numpy as np",
        "receiver": "from spark_jobs.estimators.loss import costs, queue",
        "search": "from spark_jobs.estimators.loss.receiver import (\n    HYPOTHESIS,\n)",
    }
    for name, text in imports.items():
        (tmp_path / f"{name}.py").write_text(text)
    assert sensitivity._modules_that_see("costs", tmp_path) == {"costs", "receiver", "search"}
    assert sensitivity._modules_that_see("search", tmp_path) == {"search"}


def test_counts_of_captures_are_pooled():
    found = {"a": Counts(10, 8, 8, 8.5), "b": Counts(0, 2, 0, 1.5)}
    both = pooled(found)
    assert both == Counts(10, 10, 8, 10.0)
    assert "-20.00%" in sensitivity.line(
        found, {"a": Counts(10, 8, 8, 8.5), "b": Counts(0, 0, 0, 0)}
    )
