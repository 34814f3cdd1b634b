"""Pure state machines of delivery: sequences and their gaps, inboxes and their policies."""
