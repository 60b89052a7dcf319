"""The MultiKueueCluster objects: who reads them, and what is said on them."""
