"""Mailboxes of a publisher, and how the processes that read them fetch everything out of them."""
