"""Read downloaded files into records; know no store."""
