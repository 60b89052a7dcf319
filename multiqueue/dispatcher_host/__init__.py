"""Ask dispatchers: choose one, show it a view, and isolate the manager from its errors."""
