"""Redis: the live GPU ledger, what readers need fast, and the bells that wake processes."""
