"""A function that does not count references is not handed arrays by others, nor hands out any."""

import numpy as np
import pytest

from spark_jobs.compiled import compiled, inner, making


@making
def made(n):
    return np.zeros(n)


@inner
def taken(n):
    return made(n)[0]


@inner
def handed_out(values):
    return (1, (values, values))


@inner
def borrowed(values):
    return values[0]


@compiled
def takes(n):
    return taken(n)


@compiled
def hands_out(values):
    return handed_out(values)[0]


@compiled
def borrows(values):
    return borrowed(values[1:])


@pytest.mark.parametrize(("call", "given"), [(takes, 3), (hands_out, np.ones(3))])
def test_array_that_would_leak_or_be_freed_too_early_does_not_compile(call, given):
    with pytest.raises(Exception, match="see `making`"):
        call(given)


def test_function_that_only_reads_an_array_compiles():
    assert borrows(np.arange(3.0)) == 1.0
