"""What an agent asks of others: proxies, requests, futures, streams, locks."""
