"""The lab in a browser: a page, what it may ask, and who may ask it."""
