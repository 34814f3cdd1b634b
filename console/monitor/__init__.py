"""What a lab looks like now: its state without a screen, what fills it, and who shows it."""
