"""Delta tables: the topology, queue tables, streams and the commit protocol (deltalake, no JVM)."""
