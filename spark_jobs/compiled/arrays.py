"""Array tools that more than one room uses. No I/O."""

import numpy as np

from spark_jobs.compiled import compiled


@compiled
def group_offsets(codes, groups):
    """int64[groups + 1]: where each group begins once items are sorted by code; the last is the
    number of items. Negative codes belong to no group."""
    first = np.zeros(groups + 1, np.int64)
    for code in codes:
        if code >= 0:
            first[code + 1] += 1
    for i in range(groups):
        first[i + 1] += first[i]
    return first


@compiled
def group_order(codes, first):
    """int32[first[-1]]: a stable sort of the items by code (counting sort); first: see
    group_offsets."""
    order = np.empty(first[-1], np.int32)
    next_index = first.copy()
    for i, code in enumerate(codes):
        if code >= 0:
            order[next_index[code]] = i
            next_index[code] += 1
    return order


@compiled
def select_span(codes, times, wanted, begin, end, silence, until):
    """int32[N]: the items' codes, or -1 where they are not wanted. wanted: bool[codes]; of these
    codes all items of times from begin to end are, those up to `silence` earlier of codes that have
    some in as long after begin, and those before `until` of codes that have some in as long before
    end. Codes below 0 are not."""
    at_begin, at_end = np.zeros(len(wanted), np.bool_), np.zeros(len(wanted), np.bool_)
    for i in range(len(codes)):
        code, time = codes[i], times[i]
        if code >= 0 and begin <= time < end:
            at_begin[code] |= time < begin + silence
            at_end[code] |= time >= end - silence
    out = np.empty(len(codes), np.int32)
    for i in range(len(codes)):
        code, time = codes[i], times[i]
        if code < 0 or not wanted[code]:
            out[i] = -1
        elif time < begin:
            out[i] = code if at_begin[code] and time >= begin - silence else -1
        elif time >= end:
            out[i] = code if at_end[code] and time < until else -1
        else:
            out[i] = code
    return out


@compiled
def sorted_within_groups(first, values):
    """Whether no value is below the one before it in the same group."""
    for group in range(len(first) - 1):
        for i in range(first[group] + 1, first[group + 1]):
            if values[i] < values[i - 1]:
                return False
    return True


@compiled
def inverse_order(order, items):
    """int32[items]: where in `order` each item stands, -1 where it does not."""
    out = np.full(items, np.int32(-1))
    for index, item in enumerate(order):
        out[item] = index
    return out


@compiled
def true_indices(chosen):
    """int64[..]: where bool[N] is true, in a fraction of the time that np.flatnonzero takes in
    compiled code."""
    out = np.empty(len(chosen), np.int64)
    n = 0
    for i in range(len(chosen)):
        out[n] = i
        n += chosen[i]
    return out[:n]


@compiled
def gather(values, indices):
    """values[places], in half the time that NumPy takes."""
    out = np.empty(len(indices), values.dtype)
    for i in range(len(indices)):
        out[i] = values[indices[i]]
    return out


@compiled
def scatter(values, indices, out):
    """Put each value into `out` at its place; those with a negative place are left out."""
    for i in range(len(values)):
        if indices[i] >= 0:
            out[indices[i]] = values[i]
