"""Matching structures over the texts of a batch: tables, keys, the trie of topic patterns. They know no bindings."""
