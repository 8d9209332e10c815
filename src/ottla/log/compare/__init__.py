"""Replicas of one partition, side by side."""
