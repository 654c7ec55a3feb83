duckplets mine mixed.duckdb
duckplets show mixed.duckdb --why 'what is number 3 of grey'
