"""How agents find each other by name: discovery, registry, topic graph."""
