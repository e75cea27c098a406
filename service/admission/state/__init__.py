"""What the leader keeps from cycle to cycle beside the World's facts, and how changes are booked in it."""
