"""The MultiKueueCluster objects: reads them, and writes their conditions."""
