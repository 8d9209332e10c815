"""Find batches: by headers, in damaged bytes, for indexes."""
