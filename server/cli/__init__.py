"""Run the verbs of the ``arrowhead`` command."""
