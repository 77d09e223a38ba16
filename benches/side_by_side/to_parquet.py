"""The exported table as Parquet for ROAPI. `python to_parquet.py DATABASE OUT`, in an environment with pyarrow."""

import sqlite3
import sys

import pyarrow
import pyarrow.parquet

connection = sqlite3.connect(sys.argv[1])
names = [row[1] for row in connection.execute("PRAGMA table_info(listings)")]
columns = zip(*connection.execute("SELECT * FROM listings ORDER BY position"))
pyarrow.parquet.write_table(pyarrow.table(dict(zip(names, map(list, columns)))), sys.argv[2])
