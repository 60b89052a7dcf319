"""What workers have, could hold and do hold, and what follows from it for quota here."""
