"""Where a data directory is: a folder of this machine, or the objects below a URL of an object store.

This package is the one that knows. Everything but Delta's own reading and Spark's checkpoints goes through
a `Place`; durable effects through `bindery.store.effects`, which tells what happened.
"""

from bindery.store.places.addresses import at, delta_options, hadoop_address, normalised
from bindery.store.places.local import LocalPlace, write_all
from bindery.store.places.local import sync as sync_file
from bindery.store.places.place import Output, Place, Stat
from bindery.store.places.stores import SCHEMES, requests

__all__ = [
    "SCHEMES",
    "LocalPlace",
    "Output",
    "Place",
    "Stat",
    "at",
    "delta_options",
    "hadoop_address",
    "normalised",
    "requests",
    "sync_file",
    "write_all",
]
