"""Python in one line: train, load, compare. The command line goes through the same settings, files and loops."""
