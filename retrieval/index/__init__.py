"""Search rows of one encoder's vectors, exactly or approximately, durably and with filters."""
