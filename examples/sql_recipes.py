"""Store recipes with SQL conditions in the corpus, compile them, and draw from them.

python examples/sql_recipes.py
"""

import tempfile
from pathlib import Path

import duckplets as dp

HERE = Path(__file__).parent
SOURCE = dp.Source(
    HERE / "data" / "faq.csv", anchor="question", positive="answer", date="updated", meta="topic"
)

with tempfile.TemporaryDirectory() as folder, dp.Corpus(Path(folder) / "faq.duckdb") as corpus:
    corpus.ingest(SOURCE, name="faq")
    corpus.split()
    for recipe in dp.load_recipes(HERE / "sql_recipes.toml"):
        corpus.add_recipe(recipe)

    # A recipe compiles to one statement, and the rows of that are its pool.
    statement = corpus.pool("same_topic", sql=True)
    print("same_topic compiles to a statement; in it:")
    print("\n".join(line for line in statement.split("\n") if "2022" in line))
    for recipe in corpus.recipes():
        print(f"pool of {recipe.name}: {corpus.pool(recipe.name).num_rows} anchors")

    # Stored recipes are what a sampler draws by, in proportion to their weights.
    columns = ["recipe", "anchor", "negative", "anchor_meta", "negative_date"]
    sampler = corpus.sampler("triplets", batch_size=10, seed=7, columns=columns)
    for row in next(sampler).to_pylist()[:4]:
        topic = dict(row["anchor_meta"])["topic"]
        print(f"\n{row['recipe']}, topic {topic}\n  anchor    {row['anchor']}")
        print(f"  negative  {row['negative']} ({row['negative_date']})")

    texts = corpus.sampler("texts", batch_size=3, seed=7, columns=["recipe", "text"])
    print()
    for row in next(texts).to_pylist():
        print(f"{row['recipe']}: {row['text']}")

    # A function that is not on the list is refused, and the message names it.
    try:
        dp.role("context", where="text = (SELECT content FROM read_text('/etc/passwd'))")
    except dp.RecipeError as error:
        print(f"\nrefused: {error}")
