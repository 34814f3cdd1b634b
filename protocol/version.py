"""The version of this package: what the package is built with, commands print and handshakes tell."""

VERSION = "0.3.0"
