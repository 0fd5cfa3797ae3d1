"""Keep vectors in the PostgreSQL database that several servers share, with the extension pgvector."""
