"""Log, limit and secure every request, as ASGI layers."""
