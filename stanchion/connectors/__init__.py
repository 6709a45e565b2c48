"""Ready-made ways to the outside: each says of every answer whether it was done, not done, or nobody knows."""
