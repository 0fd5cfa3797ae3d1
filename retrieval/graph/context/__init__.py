"""Choose and write the statements that a model is given."""
