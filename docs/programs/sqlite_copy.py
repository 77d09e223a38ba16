"""A table in SQLite that follows a mirror. Each run brings it up to date."""
import sqlite3
from changes import changes

db = sqlite3.connect("venues.sqlite", timeout=600, isolation_level=None)
db.execute("create table if not exists venues (id integer primary key, listing text, detail text)")
db.execute("create table if not exists follow (since text)")
db.execute("begin immediate")  # another run waits
since = db.execute("select since from follow").fetchone()
rows, following, is_everything = changes(since and since[0])

db.execute("delete from venues where ?", [is_everything])
db.executemany("delete from venues where id = ?", [row[:1] for row in rows])
db.executemany("insert into venues values (?, ?, ?)", [row for row in rows if row[1]])
db.execute("delete from follow")
db.execute("insert into follow values (?)", [following])
db.execute("commit")
print(db.execute("select listing->>'state', count(*), count(detail) from venues group by 1 order by 2 desc limit 3").fetchall())
