"""Records, headers and violations of slices; streams; internal topics."""
