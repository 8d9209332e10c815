"""Tables to Arrow record batches, and back."""
