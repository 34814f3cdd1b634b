"""What an agent publishes and receives: the broadcast plane, subscriptions, signals."""
