"""Tools that tests share. No test stands here."""
