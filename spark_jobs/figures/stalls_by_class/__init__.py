"""Why do connections stall, and how many users at once? Source: Zhou et al., CoNEXT 2015."""
