"""Let answers use the tools of the site's own MCP servers."""
