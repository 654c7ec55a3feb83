-- The keys of those of different words (Arrow: place, word) that were met before.
SELECT found.place, words.term_key
FROM found
JOIN words ON words.word = found.word
