"""Whether anything got slower: ratios that hold across machines, against those that are stored."""
