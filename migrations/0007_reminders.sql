-- When people were reminded of a question that still waits.

ALTER TABLE questions ADD COLUMN reminded_at TIMESTAMPTZ;
