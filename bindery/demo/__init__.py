"""A year of flights through four exchange types (`make demo`)."""
