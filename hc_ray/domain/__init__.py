"""Values, ports, configuration and errors. No library but pydantic, no I/O; everything may import it."""
