"""The interception loop: stop at a call, fetch the reply, splice it in, go on. Knows no engine and no NCBI."""
