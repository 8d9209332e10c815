"""What Kafka demands of a log, each rule once: folds and masks over tables; no files, no Spark."""
