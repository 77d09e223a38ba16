"""A table in PostgreSQL that follows a mirror. Each run brings it up to date. pip install "psycopg[binary]", createdb venues

`json` keeps texts that `jsonb` refuses, such as those with `\\u0000`.
"""
import psycopg
from changes import changes

with psycopg.connect("dbname=venues") as db:  # one transaction
    db.execute("create table if not exists venues (id bigint primary key, listing json not null, detail json)")
    db.execute("create table if not exists follow (since text)")
    db.execute("lock table follow")  # another run waits
    since = db.execute("select since from follow").fetchone()
    rows, following, is_everything = changes(since and since[0])
    db.execute("delete from venues where %s or id = any(%s)", [is_everything, [row[0] for row in rows]])
    with db.cursor().copy("copy venues from stdin") as copy:
        for row in rows:
            if row[1]:
                copy.write_row(row)
    db.execute("delete from follow")
    db.execute("insert into follow values (%s)", [following])
    for row in db.execute("select listing->>'state', count(*), count(detail) from venues group by 1 order by 2 desc limit 3"):
        print(*row)
