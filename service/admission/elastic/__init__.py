"""Which sizes an elastic group may have, and what it can give up."""
