"""Mutation testing: small faults put into the router, to see which of them no test notices (`make mutate`)."""
