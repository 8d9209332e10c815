"""Read a segment: windows of whole batches, headers, records."""
