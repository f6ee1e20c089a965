"""Files that are damaged in every way, for tests that hold whatever the bytes are."""

from collections.abc import Mapping, Sequence

from hypothesis import strategies as st

from tests.helpers.bad_input import changed


@st.composite
def damaged(draw, seeds: Mapping[str, bytes], texts: Sequence[bytes] = ()) -> bytes:
    """One of the seeds after a few flips, cuts, repetitions and splices; texts: some of which are
    written into it, too."""
    file = draw(st.sampled_from(sorted(seeds)).map(seeds.get))
    place = st.integers(0, len(file) - 1)
    ways = ["flip", "write", "remove", "repeat", "splice", "cut"]
    for _ in range(draw(st.integers(1, 6))):
        at = draw(place) % max(1, len(file))
        length = draw(st.integers(0, 40))
        match draw(st.sampled_from([*ways, "text"] if texts else ways)):
            case "flip":
                bit = 1 << draw(st.integers(0, 7))
                file = changed(file, at, bytes(byte ^ bit for byte in file[at : at + 1]))
            case "write":
                file = changed(file, at, draw(st.binary(max_size=8)))
            case "remove":
                file = file[:at] + file[at + length :]
            case "repeat":
                file = file[:at] + file[at : at + length] * draw(st.integers(2, 50)) + file[at:]
            case "splice":
                other = draw(st.sampled_from(sorted(seeds)).map(seeds.get))
                file = file[:at] + other[draw(place) % len(other) :]
            case "cut":
                file = file[: max(at, len(file) - length)]
            case "text":
                file = file[:at] + draw(st.sampled_from(texts)) + file[at + length :]
    return file
