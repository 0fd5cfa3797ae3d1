"""Give methods the calls, passages and statements that they ask for."""
