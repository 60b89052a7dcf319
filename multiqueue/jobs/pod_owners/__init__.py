"""What the kinds share that are queued through the pods that they make (J-264 to J-315)."""
