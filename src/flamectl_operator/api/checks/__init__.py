"""The checks of a spec beside the rules of its fields: its size, contradictions, and probable mistakes."""
