"""Locks in the shape of other libraries."""
