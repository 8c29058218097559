"""The planners, one for each sub-plan. Only the plan imports them."""
