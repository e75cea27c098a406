"""What happens to a unit that holds places: decided from its row, its members and the time.

`decide` (in `rules`) and the functions named `judge_...` are pure. They say what should happen as a value;
None means that nothing does.
"""
