"""The real programs under real faults: kill -9, SIGSTOP, full disks; `python -m tests.faults.real --help`."""
