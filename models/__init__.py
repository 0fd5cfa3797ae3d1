"""Provide engines, the interception loop and encoders, without knowledge of HTTP, NCBI or prompts."""
