"""Link a question to the nodes of a graph that it names, or report that it names none."""
