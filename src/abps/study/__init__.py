"""Many runs and their answer: records, statistics, figures and the report (the grid and its executors live here too)."""
