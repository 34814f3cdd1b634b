"""What ``pzc doctor`` looks at."""
