"""Count, time, trace and log what the server does."""
