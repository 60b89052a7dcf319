"""The ways to the workers: credentials, connections and their health, live copies."""
