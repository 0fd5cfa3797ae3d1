"""Describe the server's API as an OpenAPI document and a page that loads nothing from other hosts."""
