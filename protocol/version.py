"""The version of this package, which handshakes tell."""

VERSION = "0.1.0"
