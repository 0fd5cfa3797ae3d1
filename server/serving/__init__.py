"""Run the HTTP server: sockets, slow clients, graceful shutdown."""
