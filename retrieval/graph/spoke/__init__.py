"""Query SPOKE's service and read its replies."""
