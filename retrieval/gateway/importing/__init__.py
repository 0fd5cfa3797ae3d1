"""Read the files that NCBI publishes for download as streams of records, without SQL or network access."""
