"""Coverage-guided fuzzing of every parser of untrusted text (`make fuzz`, `python -m tests.fuzz --help`)."""
