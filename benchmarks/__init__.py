"""How fast Ottla is, beside Kafka's own classes in one run. `python -m benchmarks --help`."""
