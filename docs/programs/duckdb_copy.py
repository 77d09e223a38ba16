"""A table in DuckDB that follows a mirror. Each run brings it up to date. pip install duckdb"""
import duckdb
from changes import changes

db = duckdb.connect("venues.duckdb")
db.execute("create table if not exists venues (id ubigint, listing json, detail json)")
db.execute("create table if not exists follow (since text)")
since = db.execute("select since from follow").fetchone()
rows, following, is_everything = changes(since and since[0])

db.begin()
db.execute("delete from venues where ? or id in (select unnest(?::ubigint[]))", [is_everything, [row[0] for row in rows]])
columns = [[row[at] for row in rows if row[1]] for at in range(3)]
db.execute("insert into venues select unnest(?::ubigint[]), unnest(?::json[]), unnest(?::json[])", columns)
db.execute("delete from follow")
db.execute("insert into follow values (?)", [following])
db.commit()
print(db.sql("select listing->>'state' as state, count(*), count(detail) from venues group by all order by 2 desc limit 3"))
