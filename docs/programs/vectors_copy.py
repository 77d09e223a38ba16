"""An index of vectors that follows a mirror. Each run brings it up to date and answers a question.

pip install duckdb scikit-learn. `vectors` is where your own model goes; this one only compares parts of words. Only venues
that have changed are sent through it. Most models read only the first few hundred words of a text, so the fields that
matter come first. It compares with every vector: milliseconds for 10,000 venues. DuckDB's extension `vss` has an index.
"""
import json, sys
import duckdb
from changes import changes
from sklearn.feature_extraction.text import HashingVectorizer

SIZE = 512
model = HashingVectorizer(n_features=SIZE, analyzer="char_wb", ngram_range=(2, 4))

def vectors(texts):
    return model.transform(texts).toarray().tolist() if texts else []

def words(value):
    """The texts in a value, however deep; null and numbers are none, and addresses of pages say nothing."""
    if isinstance(value, (dict, list)):
        parts = value.values() if isinstance(value, dict) else value
        return [word for part in parts for word in words(part)]
    return [value] if isinstance(value, str) and "://" not in value else []

def text(listing, detail):
    return " ".join(words([listing.get(field) for field in ("name", "sport", "city", "state")]) + words(detail))

db = duckdb.connect("vectors.duckdb")
db.execute(f"create table if not exists venues (id ubigint, text text, vector float[{SIZE}])")
db.execute("create table if not exists follow (since text)")
since = db.execute("select since from follow").fetchone()
rows, following, is_everything = changes(since and since[0])

db.begin()
db.execute("delete from venues where ? or id in (select unnest(?::ubigint[]))", [is_everything, [row[0] for row in rows]])
kept = [row for row in rows if row[1]]
texts = [text(json.loads(row[1]), json.loads(row[2] or "null")) for row in kept]
columns = [[row[0] for row in kept], texts, vectors(texts)]
db.execute(f"insert into venues select unnest(?::ubigint[]), unnest(?::text[]), unnest(?::float[{SIZE}][])", columns)
db.execute("delete from follow")
db.execute("insert into follow values (?)", [following])
db.commit()

[question] = vectors([" ".join(sys.argv[1:]) or "golf in Texas"])
order = f"array_cosine_similarity(vector, ?::float[{SIZE}])"
for id, found in db.execute(f"select id, text from venues order by {order} desc limit 5", [question]).fetchall():
    print(id, found)
