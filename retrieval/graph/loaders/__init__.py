"""Read downloaded graphs: each loader yields nodes and edges in constant memory and reports skipped records."""
