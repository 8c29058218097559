"""Tools of the people who work on flamectl-operator; no part of the wheel."""
