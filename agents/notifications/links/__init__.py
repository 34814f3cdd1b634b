"""Links: notifications with flow control and shared memory, from one publisher to one reader process."""
