"""What `ottla dump`, `inspect`, `append` and `transactions` show, unprinted: lines and rows."""
