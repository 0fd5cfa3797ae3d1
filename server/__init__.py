"""HTTP, the methods and the command line. The only package that knows all the others."""
