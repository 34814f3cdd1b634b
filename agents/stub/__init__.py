"""What an editor is told of a remote instrument."""
