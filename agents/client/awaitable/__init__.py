"""The awaitable face of proxies."""
