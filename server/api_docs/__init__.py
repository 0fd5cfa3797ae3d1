"""What the server says of its own API: an OpenAPI document that is true, and a page that needs nothing from outside."""
