"""Kafka, behind this package alone: producer, consumer, topics, dead letters, lag.

Kafka carries commands and events. It may lose, repeat, delay or reorder them, and come back empty: nothing here is the
authority for anything.
"""
