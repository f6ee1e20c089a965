"""The quality of a day: what is measured of it, and the checks that decide about its marts."""
