"""Files whose bytes lie in others: in chunks that are packed and sealed, behind others, nowhere."""
