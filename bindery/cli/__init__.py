"""The `bindery` command: one module per group of commands, thin over api, jobs, store and router."""
