"""What a spec is checked for beside the rules of its fields: its size, contradictions, and probable mistakes."""
