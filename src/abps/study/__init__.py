"""Many runs and their answer: records, statistics, figures, report, grids and their executors."""
