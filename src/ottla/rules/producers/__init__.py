"""What a broker knows of producers, and what follows from their transactions."""
