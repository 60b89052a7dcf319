"""What workers have, can hold and hold, and what quota the manager derives from it."""
