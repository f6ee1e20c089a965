"""Array tools for several packages, without I/O."""

import numpy as np

from spark_jobs.compiled import compiled, inner


@compiled
def group_offsets(codes, groups):
    """Return int64[groups + 1]: index at which each group begins once items are sorted by code.

    The last value is the number of items. Items with a negative code belong to no group.
    """
    first = np.zeros(groups + 1, np.int64)
    for code in codes:
        if code >= 0:
            first[code + 1] += 1
    for i in range(groups):
        first[i + 1] += first[i]
    return first


@compiled
def group_order(codes, first):
    """Return int32[first[-1]]: a stable sort of the items by code (counting sort).

    first: see group_offsets.
    """
    order = np.empty(first[-1], np.int32)
    next_index = first.copy()
    for i, code in enumerate(codes):
        if code >= 0:
            order[next_index[code]] = i
            next_index[code] += 1
    return order


@compiled
def select_span(codes, times, wanted, begin, end, silence, until):
    """Return int32[N]: the items' codes, or -1 if they are not wanted.

    wanted: bool[codes]. Items with a negative code are not wanted. Of a wanted code, these items
    are selected:

    - all items with times in [begin, end);
    - items up to `silence` before begin, if the code has items within `silence` after begin;
    - items from end to `until`, if the code has items within `silence` before end.
    """
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
    """Return whether no value is below the previous value in the same group."""
    for group in range(len(first) - 1):
        for i in range(first[group] + 1, first[group + 1]):
            if values[i] < values[i - 1]:
                return False
    return True


@compiled
def inverse_order(order, items):
    """Return int32[items]: index of each item in `order`, or -1 if it is not there."""
    out = np.full(items, np.int32(-1))
    for index, item in enumerate(order):
        out[item] = index
    return out


@compiled
def true_indices(chosen):
    """Return int64[..]: indices at which bool[N] is true.

    In compiled code it takes a fraction of the time of np.flatnonzero.
    """
    out = np.empty(len(chosen), np.int64)
    n = 0
    for i in range(len(chosen)):
        out[n] = i
        n += chosen[i]
    return out[:n]


@compiled
def gather(values, indices):
    """Return values[indices], in half the time that NumPy takes."""
    out = np.empty(len(indices), values.dtype)
    for i in range(len(indices)):
        out[i] = values[indices[i]]
    return out


@compiled
def scatter(values, indices, out):
    """Put each value into `out` at its index; values with a negative index are left out."""
    for i in range(len(values)):
        if indices[i] >= 0:
            out[indices[i]] = values[i]


@inner
def find_slot(keys, key):
    """Return the slot of a key in a hash table, or the free slot where it belongs: int64.

    keys: uint64[a power of two]; 0 marks a free slot, so no key is 0.
    """
    mask = np.uint64(len(keys) - 1)
    mixed = key * np.uint64(0x9E3779B97F4A7C15)
    slot = (mixed ^ mixed >> np.uint64(32)) & mask
    while keys[slot] and keys[slot] != key:
        slot = (slot + np.uint64(1)) & mask
    return np.int64(slot)
