"""What was measured, as a page with pictures."""
