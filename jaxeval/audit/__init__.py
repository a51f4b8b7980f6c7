"""The audit of metrics: do they fall where a card gets worse, and stay where it only reads differently?"""
