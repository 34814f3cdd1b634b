"""What an agent answers: served objects, lanes, locks, results, the audit log."""
