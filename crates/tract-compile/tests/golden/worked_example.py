"""Makes worked_example.jsonl: the worked example of docs/data-model.md with its view ids.

A second implementation of the two hashes concerned, so that the test compares with something
that is not itself. Run it in this folder; it overwrites the file.
"""
import hashlib
import json


def blob(text):
    canonical = json.dumps(text, ensure_ascii=False).encode()
    return hashlib.sha256(b"tract-blob-1\0" + canonical).hexdigest()


CONTENT = {
    "A": ("system", "Answer in one sentence."),
    "B": ("user", "Which rover landed in 2012?"),
    "C": ("user", "And in which crater?"),
    "E": ("user", "Which Mars rover landed in 2012?"),
    "S": ("assistant", "Rules, and a question about a rover."),
    "F": ("assistant", "Rules: one sentence. Asked: the Mars rover of 2012."),
    "D": ("assistant", "Gale crater, 語."),
}

ROWS = [
    ("A", "append", [], "A@0=A"),
    ("B", "append", [], "A@0=A B@1=B"),
    ("C", "append", [], "A@0=A B@1=B C@2=C"),
    ("E", "edit B", [["version", "B", "B", "."]], "A@0=A B@1=E C@2=C"),
    ("S", "compress A B", [["row", "A", [0, "A", None, None], None], ["row", "B", [1, "E", None, None], None],
                           ["row", ".", None, [0, ".", None, None]]], "S@0=S C@2=C"),
    ("F", "edit S", [["version", "S", "S", "."]], "S@0=F C@2=C"),
    ("R", "revert F S", [["version", "S", "F", "S"], ["row", "S", [0, "S", None, None], None],
                         ["row", "B", None, [1, "E", None, None]], ["row", "A", None, [0, "A", None, None]]],
     "A@0=A B@1=E C@2=C"),
    ("Q", "revert R", [["row", "A", [0, "A", None, None], None], ["row", "B", [1, "E", None, None], None],
                       ["row", "S", None, [0, "S", None, None]], ["version", "S", "S", "F"]], "S@0=F C@2=C"),
    ("D", "append", [], "S@0=F C@2=C D@3=D"),
]


def view_id(rows):
    listed = []
    for row in rows.split():
        version = row.split("=")[1]
        kind, text = CONTENT[version]
        listed.append([blob(text), kind, kind, False, None])
    text = json.dumps(["tract-view-1", None, listed], ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


with open("worked_example.jsonl", "w", encoding="utf-8") as out:
    for name, op, changes, rows in ROWS:
        kind, text = CONTENT.get(name, (None, None))
        line = {"commit": name, "op": op, "kind": kind, "text": text, "changes": changes, "rows": rows,
                "view_id": view_id(rows)}
        out.write(json.dumps(line, ensure_ascii=False) + "\n")
