"""Keep the state that several servers share in one PostgreSQL database: keys, rate limits and traces."""
