"""Where the jobs of a simulation come from: generators and files."""
