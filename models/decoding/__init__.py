"""Run the interception loop: stop at a call, fetch the reply, insert it, continue.

Knows no engine and no NCBI.
"""
