"""The command giscope, its options, and what it prints."""
