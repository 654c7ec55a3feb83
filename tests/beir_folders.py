"""BEIR folders with titles, odd ids, graded labels and queries of all splits, and their content."""

import json
import random


def made(folder, seed):
    """Write a BEIR folder: titles, odd ids, graded labels, queries of all splits and without."""
    draw = random.Random(seed)
    documents = [
        {
            "_id": draw.choice([f"d{n}", f"a/b {n}", f"дом-{n}"]),
            "title": draw.choice(["", f"Title {n}"]),
            "text": f"text of {n}, with {draw.choice('abc')} «é»",
            **({"metadata": {"url": f"u{n}"}} if n % 3 else {}),
        }
        for n in range(30)
    ]
    documents.append({"_id": "only", "title": "A title alone", "text": ""})
    queries = [{"_id": f"{n}", "text": f"what is the text of {n}?"} for n in range(12)]
    splits = {query["_id"]: draw.choice(["train", "dev", "test"]) for query in queries[:10]}
    labels = {
        (query, document["_id"]): draw.choice([-1, 0, 1, 1, 2, 3])
        for query in splits
        for document in draw.sample(documents, 4)
    }
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in documents))
    (folder / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in queries))
    for split in {*splits.values()}:
        rows = [(*ids, label) for ids, label in labels.items() if splits[ids[0]] == split]
        text = "".join(f"{query}\t{document}\t{label}\n" for query, document, label in rows)
        path = folder / "qrels" / f"{split}.tsv"
        path.write_text(f"query-id\tcorpus-id\tscore\n{text}")
    return folder


def content(folder):
    """Return documents, queries and labels of a BEIR folder."""
    documents = {}
    for line in (folder / "corpus.jsonl").read_text().splitlines():
        row = json.loads(line)
        documents[row["_id"]] = row["title"], row["text"], row.get("metadata", {})
    rows = map(json.loads, (folder / "queries.jsonl").read_text().splitlines())
    queries = {row["_id"]: row["text"] for row in rows}
    labels = {}
    for path in (folder / "qrels").glob("*.tsv"):
        for line in path.read_text().splitlines()[1:]:
            query, document, label = line.split("\t")
            labels[path.stem, query, document] = label
    return documents, queries, labels
