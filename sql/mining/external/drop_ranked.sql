-- Forget the candidates of one source and split.
DROP TABLE IF EXISTS external_ranked
