"""What running units hold, where, and what an admission makes of a row."""
