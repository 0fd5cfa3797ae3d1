"""Send NCBI calls: cache, rate limit, retries, BLAST polling."""
