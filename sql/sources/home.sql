-- Back to the reader's own database, so that an attached one can go.
-- Rows: none.
USE memory
