"""The levels of background traffic."""

LEVELS = {
    0: "less than 1/3 background",
    1: "between 1/3 and 2/3 background",
    2: "at least 2/3 background",
}
