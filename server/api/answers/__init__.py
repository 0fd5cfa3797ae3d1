"""Run answers and render their events, whatever the wire format."""
