"""The planners, one for each part of the plan. Only the plan imports them."""
