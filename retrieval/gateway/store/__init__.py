"""Store the records of the gateway in one SQLite file."""
