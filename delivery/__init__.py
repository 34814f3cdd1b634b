"""Pure state machines of delivery: numbers and their gaps, policies and flows, leases, locks and liveness."""
