"""The I/O thread, endpoints, and everything that carries five frames."""
