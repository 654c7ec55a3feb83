import duckplets as dp

with dp.Corpus("mixed.duckdb") as corpus:
    ranks = [corpus.sampler(batch_size=12, rank=r, world_size=4, run="four") for r in range(4)]
    for rank in ranks:
        rank.move(20)
    ranks[0].save()
three = [dp.resume("mixed.duckdb", "four", rank=r, world_size=3) for r in range(3)]
found = sorted(text for rank in three for text in rank.batch_at(20)["anchor"])
