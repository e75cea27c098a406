"""What became of a replayed log: plain columns, for whoever measures, draws or tells."""
