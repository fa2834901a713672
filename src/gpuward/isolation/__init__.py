"""The judgement, pure: what a line says, what it means, how bad it is. No clock, no chance, nothing outside."""
