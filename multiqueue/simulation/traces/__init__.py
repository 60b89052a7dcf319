"""The jobs of a simulation: generators and files."""
