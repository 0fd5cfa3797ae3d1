"""From a question to the nodes of a graph that it names, or to the plain statement that it names none."""
